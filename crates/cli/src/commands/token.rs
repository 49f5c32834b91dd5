//! `relais token`: tokens for a server, made, listed and revoked in the database that it works on.

use relais_engine::Millis;
use relais_plan::time::{parse_duration, parse_instant};
use relais_service::access::{Scope, TokenId, TokenRecord};
use relais_service::{NewToken, Service, Whose};

use crate::exit::Exit;
use crate::lists::List;
use crate::session::Global;
use crate::{screen, words};

/// Make, list and revoke the tokens that clients of `relais serve` present
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais token create --name laptop
  relais token create --user ada --scope read --scope run --name ci --expires 90d
  relais token list
  relais token revoke 0190a0b0-c0d0-7000-8000-00000000000a")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Make a token; its secret is printed this once
    Create(Create),
    /// List tokens, newest first
    List(Which),
    /// Let nobody in by a token any more
    Revoke(Revoke),
}

#[derive(clap::Args)]
struct Create {
    /// Whose token it is [default: the user that runs belong to here]
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// What its bearer may do: read, run, write, admin; may be repeated
    #[arg(long, value_name = "SCOPE", value_delimiter = ',', default_values = ["read", "run", "write"])]
    scope: Vec<Scope>,
    /// What to remember it by
    #[arg(long, value_name = "TEXT", default_value = "unnamed")]
    name: String,
    /// When it ends: after a time (12h, 90d), or at one (2030-01-01T00:00:00Z) [default: never]
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
}

#[derive(clap::Args)]
struct Which {
    /// Only those of this user
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// One JSON object per token
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Revoke {
    /// The id, as `relais token list` shows it
    #[arg(value_name = "TOKEN")]
    id: TokenId,
}

/// Tokens read at once; as many as a store gives.
const PAGE: usize = 1_000;
/// A person reads no more; `--user` narrows it down.
const MAX_PAGES: usize = 100;

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.serve_here(async |service: &Service| match args.what {
        What::Create(args) => create(service, args).await,
        What::List(args) => list(service, args).await,
        What::Revoke(args) => revoke(service, args.id).await,
    })
}

async fn create(service: &Service, args: Create) -> anyhow::Result<Exit> {
    let user = args.user.unwrap_or_else(|| service.user().to_owned());
    let expires_at = args.expires.as_deref().map(|text| ends(text, now())).transpose()?;
    let scopes = args.scope.into_iter().collect();
    let (secret, record) = service.create_token(NewToken { user, name: args.name, scopes, expires_at }).await?;
    let until = record.expires_at.map(|at| format!(", until {}", words::instant(at))).unwrap_or_default();
    let who = words::shorten(&record.user, 60);
    screen::note(&format!("token {} of {who} for {}{until}; it is shown this once:", record.id, scopes_of(&record)));
    screen::out(&secret)?;
    Ok(Exit::Done)
}

fn now() -> Millis {
    jiff::Timestamp::now().as_millisecond()
}

fn ends(text: &str, now: Millis) -> anyhow::Result<Millis> {
    let after = parse_duration(text).and_then(|ms| now.checked_add(i64::try_from(ms).ok()?));
    let wrong = || anyhow::anyhow!("--expires: `{text}` is no time; write 90d or 2030-01-01T00:00:00Z");
    after.or_else(|| parse_instant(text)).ok_or_else(wrong)
}

fn scopes_of(record: &TokenRecord) -> String {
    record.scopes.iter().map(|scope| scope.word()).collect::<Vec<_>>().join(", ")
}

async fn list(service: &Service, args: Which) -> anyhow::Result<Exit> {
    let whose = args.user.map_or(Whose::Everybodys, Whose::Of);
    let mut found = all(service, &whose).await?;
    // Their ids hold their time.
    found.sort_by_key(|record| std::cmp::Reverse(record.id));
    let (now, header) = (now(), ["TOKEN", "USER", "NAME", "SCOPES", "MADE", "LAST USED", "STATUS"]);
    let list = List { items: &found, more: false, json: args.json, none: "no tokens" };
    list.show(header, |record| cells(record, now))
}

async fn all(service: &Service, whose: &Whose) -> anyhow::Result<Vec<TokenRecord>> {
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let (page, next) = service.tokens(whose, after, PAGE).await?;
        found.extend(page);
        after = next;
        if after.is_none() {
            return Ok(found);
        }
    }
    screen::note("there are more; --user narrows them down");
    Ok(found)
}

fn cells(record: &TokenRecord, now: Millis) -> [String; 7] {
    [
        record.id.to_string(),
        words::shorten(&record.user, 40),
        words::shorten(&record.name, 40),
        scopes_of(record),
        words::instant(record.created_at),
        record.last_used_at.map_or_else(|| "never".to_owned(), words::instant),
        status(record, now),
    ]
}

fn status(record: &TokenRecord, now: Millis) -> String {
    match (record.revoked_at, record.expires_at) {
        (Some(at), _) => format!("revoked {}", words::instant(at)),
        (None, Some(at)) if at <= now => format!("expired {}", words::instant(at)),
        (None, Some(at)) => format!("until {}", words::instant(at)),
        (None, None) => "valid".to_owned(),
    }
}

async fn revoke(service: &Service, id: TokenId) -> anyhow::Result<Exit> {
    let record = service.revoke_token(id, &Whose::Everybodys).await?;
    let name = words::shorten(&record.name, 40);
    screen::note(&format!("revoked {id} ({name}); servers on this database refuse it within a second"));
    Ok(Exit::Done)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_time_to_wait_or_a_time() {
        for (text, expected) in [
            ("90d", Some(1_000 + 90 * 24 * 3_600_000)),
            ("2s", Some(3_000)),
            ("1970-01-01T00:01:00Z", Some(60_000)),
            ("soon", None),
            ("", None),
            ("99999999999999999d", None),
        ] {
            assert_eq!(ends(text, 1_000).ok(), expected, "{text}");
        }
    }
}
