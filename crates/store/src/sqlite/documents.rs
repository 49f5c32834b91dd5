//! Documents by kind, owner, name and version, and blobs by content.

use relais_engine::Millis;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};

use super::journal::{number, parsed, text};
use super::trouble::Trouble;
use super::writer::Written;
use crate::page;
use crate::{Document, DocumentKey, Error};

/// A document as it is stored.
pub(super) struct Sheet {
    key: DocumentKey,
    version: i64,
    at: Millis,
    body: String,
}

impl Sheet {
    pub(super) fn of(document: Document) -> Result<Sheet, Error> {
        let body = text(&document.body)?;
        Ok(Sheet { key: document.key, version: number(document.version)?, at: document.at, body })
    }
}

pub(super) fn put(db: &Connection, sheet: &Sheet) -> Result<Written<()>, Trouble> {
    let sql = "INSERT INTO documents (kind, owner, name, version, at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
         ON CONFLICT DO UPDATE SET at = excluded.at, body = excluded.body";
    let DocumentKey { kind, owner, name } = &sheet.key;
    db.prepare_cached(sql)?.execute(params![kind, owner, name, sheet.version, sheet.at, sheet.body])?;
    Ok(Written::quietly(()))
}

pub(super) fn get(db: &Connection, key: &DocumentKey, version: Option<u64>) -> Result<Option<Document>, Trouble> {
    let sql = "SELECT kind, owner, name, version, at, body FROM documents WHERE kind = ?1 AND owner = ?2 \
         AND name = ?3 AND (?4 IS NULL OR version = ?4) ORDER BY version DESC LIMIT 1";
    let version = version.map(number).transpose()?;
    let mut statement = db.prepare_cached(sql)?;
    Ok(statement.query_row(params![key.kind, key.owner, key.name, version], read).optional()?)
}

pub(super) fn list(db: &Connection, kind: &str, owner: &str) -> Result<Vec<Document>, Trouble> {
    let sql = "SELECT kind, owner, name, version, at, body FROM documents AS d WHERE kind = ?1 AND owner = ?2 \
         AND version = (SELECT max(version) FROM documents AS v WHERE v.kind = d.kind AND v.owner = d.owner \
         AND v.name = d.name) ORDER BY name";
    let mut statement = db.prepare_cached(sql)?;
    let documents = statement.query_map([kind, owner], read)?;
    Ok(documents.collect::<Result<_, _>>()?)
}

pub(super) fn versions(db: &Connection, key: &DocumentKey, limit: usize) -> Result<Vec<Document>, Trouble> {
    let sql = "SELECT kind, owner, name, version, at, body FROM documents WHERE kind = ?1 AND owner = ?2 AND name = ?3 \
         ORDER BY version DESC LIMIT ?4";
    let mut statement = db.prepare_cached(sql)?;
    let documents = statement.query_map(params![key.kind, key.owner, key.name, page::sql_rows(limit)], read)?;
    Ok(documents.collect::<Result<_, _>>()?)
}

/// Put again, it counts as fresh again: somebody is about to refer to it.
pub(super) fn put_blob(db: &Connection, hash: &str, bytes: &[u8], now: Millis) -> Result<Written<String>, Trouble> {
    let sql = "INSERT INTO blobs (hash, body) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    db.prepare_cached(sql)?.execute(params![hash, bytes])?;
    let sql = "INSERT INTO fresh_blobs (hash, put_at) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET put_at = ?2";
    db.prepare_cached(sql)?.execute(params![hash, now])?;
    Ok(Written::quietly(hash.to_owned()))
}

pub(super) fn get_blob(db: &Connection, hash: &str) -> Result<Option<Vec<u8>>, Trouble> {
    let mut statement = db.prepare_cached("SELECT body FROM blobs WHERE hash = ?1")?;
    Ok(statement.query_row([hash], |row| row.get(0)).optional()?)
}

fn read(row: &SqlRow<'_>) -> rusqlite::Result<Document> {
    let key = DocumentKey { kind: row.get(0)?, owner: row.get(1)?, name: row.get(2)? };
    let version: i64 = row.get(3)?;
    Ok(Document { key, version: version.cast_unsigned(), at: row.get(4)?, body: parsed(row, 5)? })
}
