//! Statements at random about a few tables, of which the generator knows the columns as far as statements succeed.

use crate::chance::Chance;

/// A column as it was made: all but texts are whole numbers.
#[derive(Clone, Debug)]
struct Column {
    name: String,
    is_text: bool,
}

#[derive(Clone, Debug)]
struct Table {
    name: String,
    /// The first is the key `id`.
    columns: Vec<Column>,
    constraints: Vec<String>,
    indexes: Vec<String>,
}

/// A statement.
#[derive(Debug)]
pub struct Asked {
    pub sql: String,
    /// Which rows to look at behind it.
    pub table: Option<String>,
    /// It touches several rows, and which of several faults is told depends on their order.
    pub is_many: bool,
    effect: Effect,
}

/// What it makes of the tables, if it succeeds.
#[derive(Clone, Debug)]
enum Effect {
    Nothing,
    Begin,
    Commit,
    Rollback,
    Savepoint(String),
    BackTo(String),
    Tables(Vec<Table>),
}

/// The generator.
#[derive(Debug)]
pub struct Generator {
    pub chance: Chance,
    tables: Vec<Table>,
    before: Option<Vec<Table>>,
    savepoints: Vec<(String, Vec<Table>)>,
    names: usize,
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        let (tables, before, savepoints) = (Vec::new(), None, Vec::new());
        Generator { chance: Chance(seed), tables, before, savepoints, names: 0 }
    }

    fn name(&mut self, of: &str) -> String {
        self.names += 1;
        format!("{of}{}", self.names)
    }

    /// Notes what a statement did.
    pub fn note(&mut self, asked: &Asked, is_done: bool) {
        if !is_done {
            return;
        }
        match &asked.effect {
            Effect::Nothing => {}
            Effect::Begin if self.before.is_none() => self.before = Some(self.tables.clone()),
            Effect::Begin => {}
            Effect::Commit => (self.before, self.savepoints) = (None, Vec::new()),
            Effect::Rollback => {
                self.tables = self.before.take().unwrap_or_else(|| self.tables.clone());
                self.savepoints.clear();
            }
            Effect::Savepoint(name) => self.savepoints.push((name.clone(), self.tables.clone())),
            Effect::BackTo(name) => {
                if let Some(at) = self.savepoints.iter().rposition(|(own, _)| own == name) {
                    self.tables = self.savepoints[at].1.clone();
                    self.savepoints.truncate(at + 1);
                }
            }
            Effect::Tables(tables) => self.tables = tables.clone(),
        }
    }

    /// A COMMIT of a transaction that has failed is a ROLLBACK.
    pub fn end(&self, commits: bool) -> Asked {
        let (sql, effect) = match commits {
            true => ("commit", Effect::Commit),
            false => ("rollback", Effect::Rollback),
        };
        Asked { sql: sql.into(), table: None, is_many: false, effect }
    }

    pub fn in_block(&self) -> bool {
        self.before.is_some()
    }

    /// ROLLBACK TO one of the savepoints.
    pub fn back(&mut self) -> Option<Asked> {
        let names: Vec<String> = self.savepoints.iter().map(|(name, _)| name.clone()).collect();
        let name = (!names.is_empty()).then(|| self.chance.pick(&names))?;
        let (sql, effect) = (format!("rollback to {name}"), Effect::BackTo(name));
        Some(Asked { sql, table: None, is_many: false, effect })
    }

    pub fn next(&mut self) -> Asked {
        let plain = |sql: String, effect| Asked { sql, table: None, is_many: false, effect };
        if self.tables.len() < 2 || self.chance.below(60) == 0 {
            return self.create();
        }
        match self.chance.below(100) {
            0..30 => self.insert(),
            30..48 => self.update(),
            48..56 => self.delete(),
            56..64 => self.select(),
            64..80 => self.alter(),
            80..85 => plain("begin".into(), Effect::Begin),
            85..88 => self.end(true),
            88..90 => self.end(false),
            90..95 => {
                let name = format!("s{}", self.chance.below(3));
                plain(format!("savepoint {name}"), Effect::Savepoint(name))
            }
            95..97 => match self.back() {
                Some(back) => back,
                None => plain("rollback to nowhere".into(), Effect::Nothing),
            },
            97 => plain("selec 1".into(), Effect::Nothing),
            _ => {
                let table = self.table();
                Asked {
                    sql: format!("truncate {}", table.name),
                    table: Some(table.name),
                    is_many: false,
                    effect: Effect::Nothing,
                }
            }
        }
    }

    fn create(&mut self) -> Asked {
        let name = self.name("t");
        let mut columns = vec![Column { name: "id".into(), is_text: false }];
        let mut said = "id int primary key".to_owned();
        for own in ["a", "b"] {
            let bound = match self.chance.below(5) {
                0 => format!(" check ({own} < 40)"),
                1 => " unique".to_owned(),
                2 => " not null".to_owned(),
                3 => " default 3".to_owned(),
                _ => String::new(),
            };
            said += &format!(", {own} int{bound}");
            columns.push(Column { name: own.into(), is_text: false });
        }
        let text = self.chance.pick(&["text", "varchar(3)", "text default 'x'", "text unique"]);
        said += &format!(", c {text}");
        columns.push(Column { name: "c".into(), is_text: true });
        let mut tables = self.tables.clone();
        let (constraints, indexes) = (vec![format!("{name}_pkey")], Vec::new());
        tables.push(Table { name: name.clone(), columns, constraints, indexes });
        let sql = format!("create table {name} ({said})");
        Asked { sql, table: Some(name), is_many: false, effect: Effect::Tables(tables) }
    }

    fn table(&mut self) -> Table {
        let tables = self.tables.clone();
        self.chance.pick(&tables)
    }

    fn value(&mut self, of: &Column) -> String {
        if self.chance.below(9) == 0 {
            return "null".into();
        }
        match of.is_text {
            true => format!("'{}'", self.chance.pick(&["a", "b", "c", "dd", "eee", "fff"])),
            false => self.chance.below(45).to_string(),
        }
    }

    fn returning(&mut self, table: &Table) -> String {
        let last = &table.columns[table.columns.len() - 1].name;
        match self.chance.below(5) {
            0 => " returning *".into(),
            1 => format!(" returning id, {last}"),
            2 => " returning id + 1 as next".into(),
            _ => String::new(),
        }
    }

    fn insert(&mut self) -> Asked {
        let table = self.table();
        let name = &table.name;
        let mut columns = table.columns.clone();
        if self.chance.below(3) == 0 && columns.len() > 2 {
            let gone = 1 + self.chance.below(columns.len() - 1);
            columns.remove(gone);
        }
        let names: Vec<&str> = columns.iter().map(|own| own.name.as_str()).collect();
        let head = format!("insert into {name} ({})", names.join(", "));
        let count = self.chance.pick(&[1, 1, 1, 2, 4]);
        let mut is_many = count > 1;
        let mut sql = if self.chance.below(8) == 0 {
            is_many = true;
            let (of, more) = (self.table(), self.chance.below(40));
            let value = |own: &Column| match (own.name.as_str(), own.is_text) {
                ("id", _) => format!("id + {more}"),
                (_, true) => "'q'".to_owned(),
                (_, false) => "id".to_owned(),
            };
            let values: Vec<String> = columns.iter().map(value).collect();
            format!("{head} select {} from {}", values.join(", "), of.name)
        } else {
            let rows: Vec<String> = (0..count)
                .map(|_| {
                    let values: Vec<String> = columns.iter().map(|own| self.value(own)).collect();
                    format!("({})", values.join(", "))
                })
                .collect();
            format!("{head} values {}", rows.join(", "))
        };
        match self.chance.below(6) {
            0 => sql += " on conflict do nothing",
            1 => sql += " on conflict (id) do nothing",
            2 => {
                let own = self.chance.pick(&columns[1..]);
                let set = match own.is_text {
                    true => format!("excluded.{}", own.name),
                    false => format!("coalesce({name}.{}, 0) + 1", own.name),
                };
                sql += &format!(" on conflict (id) do update set {} = {set}", own.name);
            }
            _ => {}
        }
        sql += &self.returning(&table);
        Asked { sql, table: Some(name.clone()), is_many, effect: Effect::Nothing }
    }

    /// A condition, and whether it chooses one row at most.
    fn condition(&mut self, table: &Table) -> (String, bool) {
        let own = self.chance.pick(&table.columns);
        let name = &own.name;
        let (one, two) = (self.value(&own), self.value(&own));
        match self.chance.below(8) {
            0..3 => (format!("id = {}", self.chance.below(45)), true),
            3 => (format!("{name} is null"), false),
            4 => (format!("{name} in ({one}, {two})"), false),
            5 => (format!("{name} between {one} and {two}"), false),
            6 => (format!("not ({name} > {one}) or id < {}", self.chance.below(9)), false),
            _ => (format!("{name} = {one} and id <> {}", self.chance.below(45)), false),
        }
    }

    fn update(&mut self) -> Asked {
        let table = self.table();
        let (condition, is_one) = self.condition(&table);
        // Keys of several rows at once are set in an order that nobody knows.
        let (own, at) = match is_one && self.chance.below(4) == 0 {
            true => (table.columns[0].clone(), 0),
            false => {
                let at = 1 + self.chance.below(table.columns.len() - 1);
                (table.columns[at].clone(), at)
            }
        };
        let name = &own.name;
        let value = match self.chance.below(6) {
            0..2 if at > 0 && !own.is_text => format!("{name} + 1"),
            2 if at > 0 && !own.is_text => format!("100 / ({name} - {})", self.chance.below(45)),
            2 if own.is_text => format!("{name} || 'x'"),
            3 if at > 0 => "default".to_owned(),
            _ => self.value(&own),
        };
        let mut sql = format!("update {} set {name} = {value} where {condition}", table.name);
        if self.chance.below(7) == 0 && at > 0 && !own.is_text {
            let from = self.table();
            sql = format!(
                "update {} as u set {name} = coalesce(o.id, 1) from {} as o where o.id = u.id",
                table.name, from.name
            );
        } else {
            sql += &self.returning(&table);
        }
        let (table, effect) = (Some(table.name), Effect::Nothing);
        Asked { sql, table, is_many: true, effect }
    }

    fn delete(&mut self) -> Asked {
        let table = self.table();
        let (condition, _) = self.condition(&table);
        let mut sql = format!("delete from {} where {condition}", table.name);
        if self.chance.below(6) == 0 {
            let from = self.table();
            sql = format!(
                "delete from {} as u using {} as o where o.id = u.id + {}",
                table.name,
                from.name,
                self.chance.below(5)
            );
        } else {
            sql += &self.returning(&table);
        }
        Asked { sql, table: Some(table.name), is_many: true, effect: Effect::Nothing }
    }

    fn select(&mut self) -> Asked {
        let table = self.table();
        let (condition, _) = self.condition(&table);
        let own = self.chance.pick(&table.columns).name;
        let (name, n) = (&table.name, 1 + self.chance.below(4));
        let way = self.chance.pick(&["", " desc", " nulls first", " desc nulls last"]);
        let sql = match self.chance.below(6) {
            0 => format!(
                "select count(*), count({own}), min({own}), max({own}) from {name} where {condition}"
            ),
            1 => {
                format!("select * from {name} where {condition} order by {own}{way}, id limit {n}")
            }
            2 => format!("select {own}, count(*) from {name} group by {own} order by {own}{way}"),
            3 => format!("select distinct {own} from {name} order by {own}{way} limit {n}"),
            4 => {
                let with = self.table().name;
                format!(
                    "select x.id, y.id from {name} x left join {with} y on y.id = x.id order by 1, 2"
                )
            }
            _ => format!("select id, {own} from {name} where {condition} for update"),
        };
        Asked { sql, table: None, is_many: true, effect: Effect::Nothing }
    }

    fn alter(&mut self) -> Asked {
        let mut tables = self.tables.clone();
        let at = self.chance.below(tables.len());
        let fresh = self.name("n");
        let known = tables[at].columns.len();
        let place = 1 + self.chance.below(known - 1);
        let (are_many, n) = (tables.len() > 4, self.chance.below(30));
        let table = &mut tables[at];
        let (name, own) = (table.name.clone(), table.columns[place].clone());
        let column = &own.name;
        let sql = match self.chance.below(13) {
            0 | 1 => {
                table.columns.push(Column { name: fresh.clone(), is_text: false });
                let more = ["", " default 5", " default 5 not null", " not null", " unique"];
                format!("alter table {name} add column {fresh} int{}", self.chance.pick(&more))
            }
            2 if known > 3 => {
                table.columns.remove(place);
                format!("alter table {name} drop column {column}")
            }
            3 => {
                table.columns[place].name.clone_from(&fresh);
                format!("alter table {name} rename column {column} to {fresh}")
            }
            4 => format!("alter table {name} alter {column} set not null"),
            5 => format!("alter table {name} alter {column} drop not null"),
            6 if own.is_text => format!("alter table {name} alter {column} type varchar(4)"),
            6 => format!("alter table {name} alter {column} type bigint"),
            7 if !own.is_text => format!("alter table {name} alter {column} set default {n}"),
            8 => {
                table.constraints.push(fresh.clone());
                format!("alter table {name} add constraint {fresh} unique ({column})")
            }
            9 => {
                table.constraints.push(fresh.clone());
                format!("alter table {name} add constraint {fresh} check (id >= {})", n / 10)
            }
            10 if !table.constraints.is_empty() => {
                let gone = self.chance.below(table.constraints.len());
                format!("alter table {name} drop constraint {}", table.constraints.remove(gone))
            }
            11 if !table.indexes.is_empty() => {
                let gone = self.chance.below(table.indexes.len());
                format!("drop index {}", table.indexes.remove(gone))
            }
            12 if are_many => {
                tables.remove(at);
                format!("drop table {name}")
            }
            _ => {
                table.indexes.push(fresh.clone());
                let unique = self.chance.pick(&["", "", "unique "]);
                format!("create {unique}index {fresh} on {name} ({column}, id)")
            }
        };
        let (looked, is_many) = (Some(name), true);
        Asked { sql, table: looked, is_many, effect: Effect::Tables(tables) }
    }
}
