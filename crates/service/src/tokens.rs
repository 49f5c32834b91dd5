//! Tokens as they are kept: made, listed, revoked, and found again by what somebody presents. What a token looks like
//! and whom it lets in is in [`access`](crate::access); how it travels is the business of a surface.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relais_engine::Millis;
use relais_runtime::clock::Clock;
use relais_runtime::settings::AuthSettings;
use relais_store::{Edit, Expect, Find};
use serde::{Deserialize, Serialize};

use crate::access::{Access, Failures, Jwks, Scope, Token, TokenId, TokenRecord, check_own};
use crate::kept::{At, Kept, key, put, read, remove};
use crate::{Error, Service};

/// A token that was looked up is believed for so long; whoever revokes one in another process waits no longer.
const REMEMBERED_MS: Millis = 1_000;
/// Tokens in use within a second; more are looked up each time.
const REMEMBERED_MAX: usize = 1_024;
/// To the minute is exact enough, and a write for each request would cost more than the request.
const LAST_USED_MS: Millis = 60_000;
/// More than a person can know apart; ended ones make room for new ones.
const MAX_TOKENS_OF_A_USER: usize = 1_000;
/// The most that a store gives at once.
const PAGE: usize = 1_000;
/// A million tokens; whoever has more looks at those of one user.
const MAX_PAGES: usize = 1_000;
/// Each use of a token may come in between once a minute; somebody else's revocation once.
const REVOKE_TRIES: usize = 8;

/// A token to be made.
#[derive(Debug, Clone)]
pub struct NewToken {
    pub user: String,
    pub name: String,
    pub scopes: BTreeSet<Scope>,
    pub expires_at: Option<Millis>,
}

/// Whose tokens are meant. A surface asks for the scope `admin` before it says anything but `Own`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    Own,
    Of(String),
    Everybodys,
}

/// A record with what it is found by.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    hash: String,
    #[serde(flatten)]
    record: TokenRecord,
}

impl Kept for Stored {
    const KIND: &'static str = "token";
    const WORD: &'static str = "token";

    fn id(&self) -> String {
        self.hash.clone()
    }

    fn label(&self) -> String {
        self.record.user.clone()
    }
}

/// Whoever presents a token does not say whose it is, so tokens are kept under nobody's name.
const NOBODY: &str = "";

/// What those who come in from outside are known by.
pub(crate) struct Entrance {
    jwks: Option<Jwks>,
    failures: Failures,
    /// Of those who send to webhooks, apart from the others: one that sends with an old secret, from an address that many
    /// share, must not keep people with tokens out.
    pub hook_failures: Failures,
    remembered: Mutex<HashMap<String, Remembered>>,
}

#[derive(Clone)]
struct Remembered {
    record: TokenRecord,
    at: Millis,
}

impl Entrance {
    pub fn new(settings: &AuthSettings, clock: &Arc<dyn Clock>) -> Result<Entrance, Error> {
        let (jwks, failures) = (Jwks::new(settings, clock.clone())?, Failures::new(clock.clone()));
        let hook_failures = Failures::new(clock.clone());
        Ok(Entrance { jwks, failures, hook_failures, remembered: Mutex::default() })
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<String, Remembered>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets in by what was looked up a moment ago. Every doubt is for a second look to settle.
    fn recall(&self, presented: &str, now: Millis) -> Option<Access> {
        let token = Token::read(presented).ok()?;
        let key = token.key();
        let known = self.remembered().get(&key).filter(|known| known.is_fresh(now)).cloned()?;
        token.admit(Some((&key, &known.record)), now).ok()
    }

    fn remember(&self, key: String, record: TokenRecord, now: Millis) {
        let mut all = self.remembered();
        if all.len() >= REMEMBERED_MAX {
            all.retain(|_, known| known.is_fresh(now));
        }
        if all.len() < REMEMBERED_MAX {
            all.insert(key, Remembered { record, at: now });
        }
    }
}

impl Remembered {
    /// A time to come means that the clock was put back.
    fn is_fresh(&self, now: Millis) -> bool {
        (0..REMEMBERED_MS).contains(&now.saturating_sub(self.at))
    }
}

impl Service {
    /// Lets in whoever presents this text: a token of ours, or a JWT if an issuer is configured. Wrong tries are
    /// counted by the address they come from; whoever was let in a moment ago is not made to wait for another's.
    pub async fn admit(&self, presented: &str, from: IpAddr) -> Result<Access, Error> {
        let entrance = &self.core.entrance;
        if let Some(access) = entrance.recall(presented, self.core.clock.now()) {
            return Ok(access);
        }
        entrance.failures.check(from)?;
        let found = self.recognise(presented).await;
        if matches!(found, Err(Error::Unauthorized(_))) {
            entrance.failures.note(from);
        }
        found
    }

    /// Whether somebody who was let in would still be: no try that counts.
    pub async fn admit_again(&self, presented: &str) -> Result<Access, Error> {
        match self.core.entrance.recall(presented, self.core.clock.now()) {
            Some(access) => Ok(access),
            None => self.recognise(presented).await,
        }
    }

    async fn recognise(&self, presented: &str) -> Result<Access, Error> {
        match &self.core.entrance.jwks {
            Some(jwks) if !Token::is_meant(presented) => jwks.verify(presented).await,
            Some(_) | None => self.look_up(&Token::read(presented)?).await,
        }
    }

    async fn look_up(&self, token: &Token) -> Result<Access, Error> {
        let now = self.core.clock.now();
        let found = self.core.store.get_record(key::<Stored>(NOBODY, &token.key())).await?;
        let Some(found) = found.map(read::<Stored>).transpose()? else { return token.admit(None, now) };
        let access = token.admit(Some((&found.it.hash, &found.it.record)), now)?;
        self.core.entrance.remember(found.it.hash.clone(), found.it.record.clone(), now);
        self.note_use(found, now).await;
        Ok(access)
    }

    /// A change that comes first (a revocation, another's note) stands, and a database that cannot be written to keeps
    /// nobody out: so what becomes of the note does not matter.
    async fn note_use(&self, found: At<Stored>, now: Millis) {
        let At { it: mut stored, revision } = found;
        if !is_noted_late(stored.record.last_used_at, now) {
            return;
        }
        stored.record.last_used_at = Some(now);
        if let Ok(edit) = put(NOBODY, &stored, Expect::Revision(revision)) {
            let _ = self.change(vec![edit]).await;
        }
    }

    /// A new token: its secret, which is shown once and never again, and what is kept of it.
    pub async fn create_token(&self, new: NewToken) -> Result<(String, TokenRecord), Error> {
        let NewToken { user, name, scopes, expires_at } = new;
        let (secret, record) = Token::mint(&user, &name, scopes, expires_at, self.core.clock.now())?;
        let mut edits = self.room_for_a_token(&user).await?;
        let stored = Stored { hash: Token::read(&secret)?.key(), record };
        edits.push(put(NOBODY, &stored, Expect::Absent)?);
        self.change(edits).await?;
        Ok((secret, stored.record))
    }

    /// Nothing as long as the user has few tokens; else those that have ended go.
    async fn room_for_a_token(&self, user: &str) -> Result<Vec<Edit>, Error> {
        let (all, _) = self.page_of_tokens(&Whose::Of(user.to_owned()), None, MAX_TOKENS_OF_A_USER).await?;
        if all.len() < MAX_TOKENS_OF_A_USER {
            return Ok(Vec::new());
        }
        let now = self.core.clock.now();
        let ended: Vec<&At<Stored>> = all.iter().filter(|found| !is_live(&found.it.record, now)).collect();
        if ended.is_empty() {
            let text = format!("The user {user:?} has {MAX_TOKENS_OF_A_USER} tokens; revoke some that nobody needs.");
            return Err(Error::Invalid(text));
        }
        Ok(ended.iter().map(|found| remove::<Stored>(NOBODY, &found.it.hash, Expect::Any)).collect())
    }

    /// Tokens in no order that means anything, from where the page before ended.
    pub async fn tokens(
        &self,
        whose: &Whose,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<TokenRecord>, Option<String>), Error> {
        let (found, next) = self.page_of_tokens(whose, after, limit).await?;
        Ok((found.into_iter().map(|found| found.it.record).collect(), next))
    }

    async fn page_of_tokens(
        &self,
        whose: &Whose,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<At<Stored>>, Option<String>), Error> {
        let (owner, limit) = (Some(NOBODY.to_owned()), limit.clamp(1, PAGE));
        let find =
            Find { kind: Stored::KIND.to_owned(), owner, label: self.label(whose), after, limit, ..Find::default() };
        let found = self.core.store.records(find).await?;
        let next = (found.len() == limit).then(|| found.last().map(|last| last.key.id.clone())).flatten();
        Ok((found.into_iter().map(read).collect::<Result<_, Error>>()?, next))
    }

    fn label(&self, whose: &Whose) -> Option<String> {
        match whose {
            Whose::Own => Some(self.user().to_owned()),
            Whose::Of(user) => Some(user.clone()),
            Whose::Everybodys => None,
        }
    }

    /// From now on nobody is let in by it here; other processes follow within a second. Of a token that was revoked
    /// before, the first time stays.
    pub async fn revoke_token(&self, id: TokenId, whose: &Whose) -> Result<TokenRecord, Error> {
        for _ in 0..REVOKE_TRIES {
            let At { it: mut stored, revision } = self.find_token(id, whose).await?;
            if stored.record.revoked_at.is_some() {
                return Ok(stored.record);
            }
            stored.record.revoked_at = Some(self.core.clock.now());
            match self.change(vec![put(NOBODY, &stored, Expect::Revision(revision))?]).await {
                Err(Error::Stale(_)) => {}
                Err(other) => return Err(other),
                Ok(_) => {
                    self.core.entrance.remembered().remove(&stored.hash);
                    return Ok(stored.record);
                }
            }
        }
        Err(Error::Busy(format!("The token {id} is being changed all the time; try again.")))
    }

    async fn find_token(&self, id: TokenId, whose: &Whose) -> Result<At<Stored>, Error> {
        let found = self.search_tokens(whose, |record| record.id == id).await?;
        found.ok_or_else(|| Error::NotFound(format!("there is no token {id}")))
    }

    /// Whether somebody could be let in at all.
    pub async fn lets_anybody_in(&self) -> Result<bool, Error> {
        let now = self.core.clock.now();
        let is_live = |record: &TokenRecord| is_live(record, now);
        Ok(self.core.entrance.jwks.is_some() || self.search_tokens(&Whose::Everybodys, is_live).await?.is_some())
    }

    async fn search_tokens(
        &self,
        whose: &Whose,
        fits: impl Fn(&TokenRecord) -> bool,
    ) -> Result<Option<At<Stored>>, Error> {
        let mut after = None;
        for _ in 0..MAX_PAGES {
            let (page, next) = self.page_of_tokens(whose, after, PAGE).await?;
            if let Some(found) = page.into_iter().find(|found| fits(&found.it.record)) {
                return Ok(Some(found));
            }
            after = next;
            if after.is_none() {
                break;
            }
        }
        Ok(None)
    }

    /// The same as [`Access::check_user_id`], where only the service is at hand: a tool's argument, say.
    pub fn check_user_id(&self, given: &str) -> Result<(), Error> {
        check_own(self.user(), given)
    }
}

fn is_live(record: &TokenRecord, now: Millis) -> bool {
    record.revoked_at.is_none() && record.expires_at.is_none_or(|at| at > now)
}

/// A note from a time to come means that the clock was put back.
fn is_noted_late(last_used_at: Option<Millis>, now: Millis) -> bool {
    last_used_at.is_none_or(|at| !(0..LAST_USED_MS).contains(&now.saturating_sub(at)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::access::TestClock;

    fn mint(expires_at: Option<Millis>) -> (String, TokenRecord) {
        Token::mint("alice", "laptop", BTreeSet::from([Scope::Run]), expires_at, 1).unwrap()
    }

    fn entrance() -> Entrance {
        let clock: Arc<dyn Clock> = Arc::new(TestClock::at(0));
        Entrance::new(&AuthSettings::default(), &clock).unwrap()
    }

    #[test]
    fn a_use_is_noted_once_a_minute() {
        let table = [
            (None, 0, true),
            (Some(0), 0, false),
            (Some(0), 59_999, false),
            (Some(0), 60_000, true),
            (Some(100_000), 0, true),
        ];
        for (last, now, expected) in table {
            assert_eq!(is_noted_late(last, now), expected, "{last:?} {now}");
        }
    }

    #[test]
    fn what_was_looked_up_is_believed_for_a_second() {
        let entrance = entrance();
        let (secret, record) = mint(Some(1_500));
        entrance.remember(Token::read(&secret).unwrap().key(), record, 1_000);
        for (now, expected) in [(999, false), (1_000, true), (1_499, true), (1_500, false), (2_000, false)] {
            assert_eq!(entrance.recall(&secret, now).is_some(), expected, "{now}");
        }
        for other in [&mint(None).0, "", "a.b.c"] {
            assert!(entrance.recall(other, 1_000).is_none());
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let entrance = entrance();
        let (_, record) = mint(None);
        (0..REMEMBERED_MAX + 5).for_each(|n| entrance.remember(n.to_string(), record.clone(), 0));
        assert_eq!(entrance.remembered().len(), REMEMBERED_MAX);
        entrance.remember("next".into(), record, REMEMBERED_MS);
        assert_eq!(entrance.remembered().len(), 1);
    }
}
