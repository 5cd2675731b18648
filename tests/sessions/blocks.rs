//! Procedural blocks: Oracle's anonymous block and PostgreSQL's DO.

use crate::database::TestDatabase;

/// The load of seed 002, with fewer rows.
#[test]
fn rows_are_inserted_in_a_loop_and_committed() {
    let database = TestDatabase::new();
    let at = database.session();
    at.done(&["create table async (name varchar2(10), n number) using heap"]);
    at.done(&["begin
for i in 1 .. 1000 loop
insert into async values('abc',i);
end loop;
commit;
end;"]);
    at.answers(&[("select count(*), sum(n), min(name) from async", "1000,500500.0000000000,abc")]);
}

/// The loop of seed 001, with what it needs around it.
#[test]
fn rows_are_updated_and_committed_one_by_one() {
    let database = TestDatabase::new();
    let at = database.session();
    at.done(&[
        "create table txn_data_old (txn_id int primary key, tdata text, n int default 0) using heap",
        "insert into txn_data_old select g, 'old', 0 from generate_series(1, 600) g",
    ]);
    at.done(&["DECLARE
  p_rows NUMBER := 450;
  p_job_no PLS_INTEGER := 2;
  x NUMBER := 1;
BEGIN
FOR i IN 1 .. p_rows LOOP
UPDATE txn_data_old
SET tdata = 'new ' || x, n = n + 1
WHERE txn_id = x + 300 * (p_job_no - 1);

COMMIT;
x := x + 1;

IF x > 200 THEN
x := 1;
END IF;
END LOOP;
END;"]);
    at.answers(&[
        (
            "select count(*), sum(n), min(txn_id), max(txn_id) from txn_data_old where n > 0",
            "200,450,301,500",
        ),
        ("select count(*) from txn_data_old where n = 3", "50"),
    ]);
    // What was committed stays when a later step fails.
    at.states(&[(
        "begin update txn_data_old set n = 9 where txn_id = 1; commit; \
                  update txn_data_old set n = 9 where txn_id = 2; n := 1 / 0; end",
        "42601",
    )]);
    at.answers(&[("select txn_id from txn_data_old where n = 9", "1")]);
}

#[test]
fn conditions_loops_and_variables_do_what_they_say() {
    let database = TestDatabase::new();
    let at = database.session();
    at.done(&["create table told (id int, what text) using heap"]);
    at.done(&["do $$
declare
  total int := 0;
  word text;
  half constant numeric(6,2) := 0.5;
begin
  for i in 1..10 loop
    continue when i % 2 = 0;
    total := total + i;
    exit when i >= 7;
  end loop;
  if total = 16 then word := 'sixteen';
  elsif total > 16 then word := 'more';
  else word := 'less';
  end if;
  insert into told values (1, word || ' ' || total);
  for i in reverse 3..1 loop
    insert into told values (10 + i, 'down');
  end loop;
  <<outer>>
  loop
    while true loop
      total := total - 1;
      exit outer when total < 10;
    end loop;
  end loop;
  case total when 1, 2 then word := 'one'; when 9 then word := 'nine'; else word := 'other'; end case;
  case when total > 100 then word := 'large'; else null; end case;
  insert into told values (2, word || ' ' || (total * half)::text);
  declare
    total text := 'inner';
  begin
    insert into told values (3, total);
  end;
  return;
  insert into told values (4, 'never');
end $$"]);
    at.answers(&[(
        "select id, what from told order by id",
        "1,sixteen 16 2,nine 4.50 3,inner 11,down 12,down 13,down",
    )]);
}

#[test]
fn rows_go_into_variables_and_records() {
    let database = TestDatabase::new();
    let at = database.session();
    at.done(&[
        "create table people (id int primary key, name varchar(20), born date) using heap",
        "insert into people values (1, 'Ada', '1815-12-10'), (2, 'Bob', null), (3, 'Cyd', '1990-01-01')",
        "create table told (what text) using heap",
    ]);
    at.done(&["declare
  v_name people.name%type;
  p people%rowtype;
  c integer;
  n number;
begin
  select name into v_name from people where id = 1;
  insert into told values (v_name);
  select * into p from people where id = 3;
  insert into told values (p.name || ' ' || p.born);
  select count(*), max(id) into c, n from people where name > v_name;
  insert into told values (c || ' ' || n);
  for r in (select id, name from people where id > 1 order by id) loop
    insert into told values (r.id || r.name);
    p.name := upper(r.name);
  end loop;
  insert into told values (p.name);
  update people set name = 'Ann' where id = 1 returning name into v_name;
  insert into told values (v_name || sql%rowcount);
  delete from people where id > 1;
  insert into told values ('gone ' || sql%rowcount);
end;"]);
    at.answers(&[(
        "select what from told",
        "Ada Cyd 1990-01-01 2 3.0000000000 2Bob 3Cyd CYD Ann1 gone 2",
    )]);
}

#[test]
fn a_column_hides_a_variable_in_a_block_and_is_ambiguous_in_do() {
    let database = TestDatabase::new();
    let at = database.session();
    at.done(&[
        "create table t (id int primary key, n int) using heap",
        "insert into t values (1, 10), (2, 20)",
        "declare n int := 5; begin update t set n = n + 1 where id = 1; end",
    ]);
    at.answers(&[("select n from t order by id", "11 20")]);
    at.states(&[(
        "do $$ declare n int := 5; begin update t set n = n + 1 where id = 1; end $$",
        "42702",
    )]);
    at.done(&["do $$ declare v int := 5; begin
        update t set n = v where id = 1; insert into t (id, n) values (3, v); end $$"]);
    at.answers(&[("select n from t order by id", "5 20 5")]);
}

#[test]
fn exceptions_undo_the_changes_of_their_block() {
    let database = TestDatabase::new();
    let at = database.session();
    at.done(&[
        "create table t (id int primary key) using heap",
        "create table told (what text) using heap",
        "insert into t values (1)",
    ]);
    at.done(&["declare
  e_mine exception;
  v int;
begin
  begin
    insert into t values (2);
    insert into t values (1);
  exception
    when dup_val_on_index then insert into told values ('duplicate');
  end;
  begin
    select id into v from t where id = 99;
  exception
    when no_data_found then insert into told values ('none ' || sqlcode);
  end;
  begin
    v := 1 / 0;
  exception
    when no_data_found or zero_divide then insert into told values ('zero');
  end;
  begin
    raise e_mine;
  exception
    when e_mine then insert into told values ('mine');
  end;
  begin
    raise_application_error(-20042, 'of the application');
  exception
    when others then insert into told values (sqlcode || sqlerrm);
  end;
  insert into t values (3);
end;"]);
    at.answers(&[
        ("select id from t order by id", "1 3"),
        ("select what from told", "duplicate none -1403 zero mine -20042of the application"),
    ]);
    at.states(&[
        ("begin select id into x from t; end", "42601"),
        ("declare v int; begin select id into v from t; end", "P0003"),
        ("declare v int; begin select id into v from t where id = 0; end", "P0002"),
        ("begin insert into t values (4); raise_application_error(-20001, 'no'); end", "P0001"),
        ("do $$ begin raise exception 'no % of %', 1, 2 using errcode = 'unique_violation'; end $$", "23505"),
        (
            "do $$ begin begin insert into t values (1);
               exception when division_by_zero then null; end; end $$",
            "23505",
        ),
        ("do $$ begin begin null; exception when nonsense then null; end; end $$", "42704"),
    ]);
    at.answers(&[("select count(*) from t", "2")]);
    at.done(&["do $$ declare v int; begin select id into v from t where id = 0;
        if v is null then insert into t values (5); end if; end $$"]);
    at.answers(&[("select count(*) from t", "3")]);
}

#[test]
fn transactions_are_the_block_s_own_or_those_around_it() {
    let database = TestDatabase::new();
    let at = database.session();
    at.done(&["create table t (id int primary key) using heap"]);
    at.done(&["begin insert into t values (1); commit; insert into t values (2); rollback;
        insert into t values (3); end"]);
    at.answers(&[("select id from t order by id", "1 3")]);
    at.states(&[("begin insert into t values (4); insert into t values (1); end", "23505")]);
    at.answers(&[("select id from t order by id", "1 3")]);
    at.done(&["begin", "do $$ begin insert into t values (5); end $$", "rollback"]);
    at.answers(&[("select id from t order by id", "1 3")]);
    at.done(&["begin"]);
    at.states(&[("do $$ begin commit; end $$", "2D000")]);
    at.done(&["rollback"]);
    at.states(&[(
        "do $$ begin begin insert into t values (6); commit;
           exception when division_by_zero then null; end; end $$",
        "2D000",
    )]);
    at.answers(&[("select count(*) from t", "2")]);
}

#[test]
fn statements_made_of_texts_run_with_values() {
    let database = TestDatabase::new();
    let at = database.session();
    at.done(&["create table t (id int primary key, what text) using heap"]);
    at.done(&["declare
  name text := 't';
  found_id int;
begin
  execute immediate 'insert into ' || name || ' values (:1, :2)' using 1, 'one';
  execute immediate 'create table made (a int)';
  execute immediate 'select id from t where what = :w' into found_id using 'one';
  execute immediate 'update t set what = :a where id = :b' using 'changed ' || found_id, found_id;
end;"]);
    at.answers(&[("select id, what from t", "1,changed 1"), ("select count(*) from made", "0")]);
}

#[test]
fn what_is_not_spoken_is_refused_with_line_and_column() {
    let database = TestDatabase::new();
    let at = database.session();
    let place = |sql: &str| {
        let error = at.tried(sql).unwrap_err();
        let position = error.position.unwrap();
        (error.sqlstate, position.line, position.column)
    };
    for (sql, wanted) in [
        ("begin\n  forall i in 1..3 null;\nend;", ("0A000", 2, 3)),
        ("begin\n  null\nend;", ("42601", 3, 1)),
        ("do $$\nbegin\n  x := 1;\nend $$", ("42601", 3, 3)),
        ("declare\n  cursor c is select 1;\nbegin null; end;", ("0A000", 2, 3)),
        ("begin\n  null;\n  goto there;\nend;", ("0A000", 3, 3)),
        ("do language plperl $$ begin null; end $$", ("42704", 1, 1)),
    ] {
        if wanted.0 == "42704" {
            assert_eq!(at.tried(sql).unwrap_err().sqlstate, wanted.0, "{sql}");
            continue;
        }
        assert_eq!(place(sql), wanted, "{sql}");
    }
    at.states(&[("do $$ begin select 1; end $$", "42601"), ("begin select 1; end", "42601")]);
    at.done(&["do $$ begin perform 1; end $$", "begin null; end;"]);
}

/// A block that is stopped leaves neither a transaction nor changes behind.
#[test]
fn a_loop_that_never_ends_is_stopped() {
    let database = TestDatabase::new();
    let at = database.session();
    at.done(&["create table t (id int) using heap", "set statement_timeout = 300"]);
    for sql in [
        "do $$ begin loop null; end loop; end $$",
        "begin insert into t values (1); while true loop null; end loop; end",
        "begin insert into t values (2); loop begin null; exception when others then null; end; end loop; end",
        "begin insert into t values (3); dbms_lock.sleep(60); end",
    ] {
        at.states(&[(sql, "57014")]);
        at.answers(&[("select count(*) from t", "0")]);
    }
    at.done(&["set statement_timeout = 0", "begin insert into t values (4); end"]);
    at.answers(&[("select id from t", "4")]);
}

/// Each was wrong once.
#[test]
fn texts_names_and_transactions_within_a_block_mean_what_they_say() {
    let database = TestDatabase::new();
    let at = database.session();
    at.done(&[
        "create table t (id int primary key, n int, s text) using heap",
        "insert into t values (1, 10, 'a'), (2, 20, 'b')",
        "create table told (what text) using heap",
    ]);
    // Quotes stay as they are written, and `..` within them.
    at.done(&["do $$ declare s text; begin
        s := 'it''s'; insert into told values (s || ' a'' || ''b');
        s := $q$a..b's$q$; insert into told values (s);
        s := E'x\\'y..z'; insert into told values (s); -- one .. two
        for i in 1..2 loop /* 1..2 /* 3 */ .. */ insert into told values ('r' || i); end loop;
        execute 'insert into told values (''q'' || $1)' using 'v';
      end $$"]);
    at.answers(&[("select what from told", "it's a' || 'b a..b's x'y..z r1 r2 qv")]);
    // A block ends no transaction but by its own steps.
    at.done(&["begin", "insert into t values (3, 30, 'c')"]);
    at.states(&[("do $$ begin execute 'commit'; end $$", "0A000")]);
    at.done(&["rollback"]);
    at.states(&[
        ("begin insert into t values (3, 1, 'c'); execute immediate 'commit'; end", "0A000"),
        ("begin insert into t values (3, 1, 'c'); savepoint a; end", "0A000"),
        ("begin execute immediate 'do $q$ begin null; end $q$'; end", "0A000"),
        ("begin exit; end", "42601"),
        ("do $$ begin loop exit nolabel; end loop; end $$", "42601"),
        ("declare a int := 'abc'; begin null; exception when others then null; end", "22P02"),
    ]);
    at.answers(&[("select count(*) from t", "2")]);
    at.done(&["delete from told"]);
    at.done(&["declare x int := 0; y int; id int := 7; total int := 5; q t%rowtype; begin
        select case when x = 0 then -1 else 100 / x end into y; insert into told values ('c' || y);
        insert into t (id, n) values (id, 1);
        select total into y from (select sum(n) as total from t) z; insert into told values ('s' || y);
        q.id := 1; select count(*) into y from t q where q.id = q.id; insert into told values ('q' || y);
        update t set n = case when x = 0 then 99 else 0 end where n = 1;
        declare x int := x + 1; begin insert into told values ('x' || x); end;
        for r in (select n as total from t where n < 99 order by total desc) loop
          insert into told values ('o' || r.total);
        end loop;
      end"]);
    at.answers(&[
        ("select what from told", "c-1 s31 q3 x1 o20 o10"),
        ("select id, n from t where n = 99", "7,99"),
    ]);
    at.done(&["do $$ declare c int := 0; begin
        perform 1; for r in select * from t where id = 0 loop null; end loop;
        if not found then insert into told values ('none'); end if; end $$"]);
    at.answers(&[("select count(*) from told where what = 'none'", "1")]);
}
