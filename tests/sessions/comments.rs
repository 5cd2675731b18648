//! COMMENT ON: comments are kept with what they are about, and go with it.

use crate::database::{Session, TestDatabase};

const ALL: &str = "select schema_name, object_name, part_type, part_name, comment from v$comment \
                   order by schema_name, object_name, part_type, part_name";

/// Objects of all kinds, and what is written about them.
fn commented(one: &Session<'_>) {
    one.done(&[
            "create schema s",
            "create table t (id int constraint t_id primary key, v text, constraint short check (length(v) < 9))",
            "create index t_v on t (v)",
            "create view w as select id from t",
            "create sequence q",
            "comment on table t is 'what is ''there'''",
            "comment on column t.v is 'a text'",
            "comment on constraint short on t is 'no novels'",
            "comment on constraint t_id on t is 'the key'",
            "comment on index t_v is 'for texts'",
            "comment on view w is 'numbers'",
            "comment on column w.id is 'a number'",
            "comment on sequence q is 'values'",
            "comment on schema s is 'empty'",
            "comment on schema public is 'all else'",
        ],
    );
}

#[test]
fn comments_are_kept_with_their_objects() {
    let database = TestDatabase::new();
    let one = database.session();
    commented(&one);
    one.answers(&[(
        ALL,
        "public,q,,,values public,t,column,v,a text public,t,constraint,short,no novels \
         public,t,constraint,t_id,the key public,t,index,t_v,for texts \
         public,t,,,what is 'there' public,w,column,id,a number public,w,,,numbers \
         public,,,,all else s,,,,empty",
    )]);
    one.done(&[
        "drop view w",
        "alter table t rename column v to words",
        "alter table t rename constraint short to brief",
        "alter index t_v rename to t_words",
        "alter sequence q increment by 2",
        "alter table t add column more int",
        "alter table t set schema s",
        "comment on schema public is null",
        "comment on sequence q is ''",
    ]);
    one.answers(&[(
        ALL,
        "s,t,column,words,a text s,t,constraint,brief,no novels s,t,constraint,t_id,the key \
         s,t,index,t_words,for texts s,t,,,what is 'there' s,,,,empty",
    )]);
    one.done(&[
        "drop index s.t_words",
        "alter table s.t drop constraint brief",
        "alter table s.t drop column words",
        "begin",
        "comment on table s.t is 'never'",
        "rollback",
    ]);
    one.answers(&[(ALL, "s,t,constraint,t_id,the key s,t,,,what is 'there' s,,,,empty")]);
    one.answers(&[
        (
            "select obj_description('s.t'), obj_description('s', 'pg_namespace')",
            "what is 'there',empty",
        ),
        ("select obj_description('s.nothing'), col_description('s.t', 1)", ","),
        ("comment on column s.t.id is 'a number'", "Comment created."),
        ("select col_description('s.t', 1)", "a number"),
    ]);
    one.done(&["drop schema s cascade"]);
    one.answers(&[(ALL, "")]);
}

#[test]
fn what_is_not_there_has_none() {
    let database = TestDatabase::new();
    let one = database.session();
    one.done(&["create table t (id int primary key)", "create sequence q"]);
    one.states(&[
        ("comment on table nowhere is 'x'", "42P01"),
        ("comment on table nowhere.t is 'x'", "3F000"),
        ("comment on view t is 'x'", "42809"),
        ("comment on sequence t is 'x'", "42809"),
        ("comment on index t is 'x'", "42809"),
        ("comment on index nowhere is 'x'", "42P01"),
        ("comment on column t.nothing is 'x'", "42703"),
        ("comment on constraint nothing on t is 'x'", "42704"),
        ("comment on schema nowhere is 'x'", "3F000"),
        ("comment on table t is 7", "42601"),
        ("comment on function f is 'x'", "0A000"),
        ("comment on table v$comment is 'x'", "42809"),
    ]);
}
