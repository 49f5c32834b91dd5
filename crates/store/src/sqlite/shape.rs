//! How the tables and indexes of each version look, and what differs in a file. A number alone does not tell: a build
//! that was never released may have used the same one for other tables.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::schema;

/// Tables with their columns, and indexes. What a person has added is in here, too; it is never missing elsewhere.
#[derive(Debug, PartialEq)]
struct Shape {
    /// By table and then by column: how it is declared.
    tables: BTreeMap<String, BTreeMap<String, String>>,
    /// How each was made.
    indexes: BTreeMap<String, String>,
}

/// What a file lacks to be of a version, in words.
pub(super) fn lacks(db: &Connection, version: usize) -> rusqlite::Result<Vec<String>> {
    let (wanted, found) = (Shape::of_version(version)?, Shape::of(db)?);
    let mut lacks = found.lacking_columns(&wanted);
    lacks.extend(found.other_indexes(&wanted).map(|(name, _)| format!("the index {name} is not as it should be")));
    Ok(lacks)
}

/// Makes indexes as they should be in a version; they hold nothing that the tables do not. Answers what is still wrong.
pub(super) fn mend(db: &Connection, version: usize) -> rusqlite::Result<Vec<String>> {
    let (wanted, found) = (Shape::of_version(version)?, Shape::of(db)?);
    let lacks = found.lacking_columns(&wanted);
    if lacks.is_empty() {
        for (name, sql) in found.other_indexes(&wanted) {
            db.execute_batch(&format!("DROP INDEX IF EXISTS {name}; {sql};"))?;
        }
    }
    Ok(lacks)
}

impl Shape {
    fn of_version(version: usize) -> rusqlite::Result<Shape> {
        let db = Connection::open_in_memory()?;
        schema::MIGRATIONS.iter().take(version).try_for_each(|step| db.execute_batch(step))?;
        Shape::of(&db)
    }

    fn of(db: &Connection) -> rusqlite::Result<Shape> {
        let sql = "SELECT t.name, c.name, c.type || CASE WHEN c.\"notnull\" THEN ' NOT NULL' ELSE '' END \
             || coalesce(' DEFAULT ' || c.dflt_value, '') || CASE WHEN c.pk > 0 THEN ' KEY ' || c.pk ELSE '' END \
             FROM sqlite_schema AS t, pragma_table_xinfo(t.name) AS c \
             WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'";
        let mut statement = db.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut tables: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            tables.entry(row.get(0)?).or_default().insert(row.get(1)?, row.get(2)?);
        }
        let sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL";
        let mut statement = db.prepare(sql)?;
        let indexes = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Shape { tables, indexes: indexes.collect::<Result<_, _>>()? })
    }

    fn lacking_columns(&self, wanted: &Shape) -> Vec<String> {
        let mut lacks = Vec::new();
        for (table, columns) in &wanted.tables {
            let Some(found) = self.tables.get(table) else {
                lacks.push(format!("there is no table {table}"));
                continue;
            };
            for (column, declared) in columns {
                match found.get(column) {
                    Some(there) if there == declared => {}
                    Some(there) => lacks.push(format!("{table}.{column} is `{there}` instead of `{declared}`")),
                    None => lacks.push(format!("the table {table} has no column {column}")),
                }
            }
        }
        lacks
    }

    /// Indexes that are missing here or made in another way.
    fn other_indexes<'a>(&'a self, wanted: &'a Shape) -> impl Iterator<Item = (&'a String, &'a String)> {
        wanted.indexes.iter().filter(|(name, sql)| self.indexes.get(*name) != Some(*sql))
    }
}
