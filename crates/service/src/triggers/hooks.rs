//! Addresses that others send data to, and the trigger behind each. An id that an author chose is his own: nobody can
//! find out by choosing one which ids others have. An id that was made here cannot be guessed and stands by itself.

use std::net::IpAddr;

use relais_plan::TriggerOn;
use relais_plan::filter::{Dedupe, MAX_KEY_BYTES};
use relais_runtime::mask::Secrets;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::kept::{self, At, Kept};
use crate::triggers::sent::{Fate, Sent};
use crate::triggers::signature::{self, Given};
use crate::{Error, Service, TriggerRecord};

/// Hooks whose ids were made here are found before it is known whose they are, so no user owns the records. So are those
/// that were kept before ids belonged to users: who sends to them need not know whose they are.
pub(crate) const NOBODY: &str = "";

/// Where something was sent to.
#[derive(Debug, Clone, Copy)]
pub struct HookAddress<'a> {
    /// None where the id stands by itself: one that was made here, or one of the user whose server this is.
    pub user: Option<&'a str>,
    pub id: &'a str,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hook {
    pub id: String,
    pub owner: String,
    pub trigger: Uuid,
}

impl Kept for Hook {
    const KIND: &'static str = "hook";
    const WORD: &'static str = "webhook";

    fn id(&self) -> String {
        self.id.clone()
    }
}

/// What a secret must be called that a kept trigger names. Whoever may send to a webhook that is signed with a variable
/// may try guesses at it, so that only those are named which the operator has set for webhooks.
const HOOK_SECRET: &str = "RELAIS_HOOK_";

/// Why a trigger cannot be kept: its secret is not one of those for webhooks. `${secret:NAME}` is `${NAME}`.
pub(crate) fn refused_secret(on: &TriggerOn) -> Option<String> {
    let TriggerOn::Webhook { id, secret: Some(secret), .. } = on else { return None };
    let name = secret.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
    let rest = name.strip_prefix("secret:").unwrap_or(name).strip_prefix(HOOK_SECRET);
    let is_name = |rest: &str| rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if rest.is_some_and(|rest| !rest.is_empty() && is_name(rest)) {
        return None;
    }
    let text = format!("the secret of the webhook `{id}` is `{secret}`: a workflow on a server names only");
    Some(format!("{text} secrets and variables that begin with `{HOOK_SECRET}`, such as `${{{HOOK_SECRET}ORDERS}}`"))
}

/// What was sent to a webhook, as it came.
#[derive(Debug, Clone, Copy)]
pub struct Posted<'a> {
    pub body: &'a [u8],
    pub signature: Option<Given<'a>>,
    /// The sender's id of this delivery.
    pub key: Option<&'a str>,
    /// The trace that the sender is in, as a W3C `traceparent`.
    pub traceparent: Option<&'a str>,
    /// The address that a wrong try counts for.
    pub from: IpAddr,
}

impl Service {
    /// Whether somebody may send to an address at all. Whoever guesses addresses is soon not heard any more.
    pub async fn must_be_hook(&self, to: HookAddress<'_>, from: IpAddr) -> Result<(), Error> {
        let failures = &self.core.entrance.hook_failures;
        failures.check(from)?;
        let found = self.find_hook(to).await;
        if let Err(Error::NotFound(_)) = &found {
            failures.note(from);
        }
        found.map(drop)
    }

    /// Starts a run of the trigger behind a webhook, if its filter lets it, whoever sends it. The body is read only
    /// after its signature was found right. Whoever knows neither an address nor a secret is soon not heard any more.
    pub async fn fire_hook(
        &self,
        to: HookAddress<'_>,
        posted: Posted<'_>,
        read: impl FnOnce() -> Result<Value, Error>,
    ) -> Result<Fate, Error> {
        let failures = &self.core.entrance.hook_failures;
        failures.check(posted.from)?;
        let (service, at) = match self.behind_hook(to, &posted).await {
            Err(error @ Error::NotFound(_)) => {
                failures.note(posted.from);
                return Err(error);
            }
            other => other?,
        };
        let data = read()?;
        match key_of(&at.it, posted.key, &data)? {
            Ok(key) => {
                service.fire_sent(at, &Sent { key, data, traceparent: posted.traceparent.map(str::to_owned) }).await
            }
            Err(reason) => service.declined(&at.it, reason).await,
        }
    }

    /// The trigger behind an address and its user's service, if what was sent may be looked at. Whoever signs wrongly
    /// hears what whoever guesses hears; why it was refused is told to the trigger's user.
    async fn behind_hook(
        &self,
        to: HookAddress<'_>,
        posted: &Posted<'_>,
    ) -> Result<(Service, At<TriggerRecord>), Error> {
        let (service, at) = self.find_hook(to).await?;
        if let Err(reason) = service.check_signature(&at.it, posted) {
            service.note_refused(at.it.uuid, reason).await?;
            return Err(unheard());
        }
        Ok((service, at))
    }

    async fn find_hook(&self, to: HookAddress<'_>) -> Result<(Service, At<TriggerRecord>), Error> {
        let owners = match to.user {
            Some(user) => [user, NOBODY],
            None => [NOBODY, self.config().user.as_str()],
        };
        for owner in owners {
            if let Some(found) = self.hook_of(owner, to).await? {
                return Ok(found);
            }
        }
        Err(unheard())
    }

    /// What one record leads to, if it is there, belongs to whom the address says, and its trigger is still there.
    async fn hook_of(&self, owner: &str, to: HookAddress<'_>) -> Result<Option<(Service, At<TriggerRecord>)>, Error> {
        let Some(record) = self.core.store.get_record(kept::key::<Hook>(owner, to.id)).await? else { return Ok(None) };
        let hook = kept::read::<Hook>(record)?.it;
        if to.user.is_some_and(|user| user != hook.owner) {
            return Ok(None);
        }
        let service = self.as_user(&hook.owner);
        let trigger = service.find_kept::<TriggerRecord>(&hook.trigger.to_string()).await?;
        Ok(trigger.map(|at| (service, at)))
    }

    /// Where the trigger names a secret, only who knows it is heard; else the reason.
    fn check_signature(&self, trigger: &TriggerRecord, posted: &Posted<'_>) -> Result<(), String> {
        let TriggerOn::Webhook { secret: Some(secret), .. } = &trigger.on.on else { return Ok(()) };
        // One that was kept before there was this rule.
        if let Some(refused) = refused_secret(&trigger.on.on) {
            return Err(refused);
        }
        let secrets = Secrets::new(&self.config().settings.secrets);
        let unset = |error| format!("the secret of this webhook cannot be read: {error}");
        let secret = secrets.expand(secret).map_err(unset)?;
        let given = posted.signature.ok_or_else(|| "what was sent is not signed".to_owned())?;
        let now_s = self.core.clock.now().div_euclid(1_000);
        signature::verify(&secret, posted.body, given, now_s)
    }
}

/// One answer for an id that nobody has and for a signature that is not right.
fn unheard() -> Error {
    let text = "nothing is taken here: there is no such webhook, or it is signed and the signature is missing or wrong";
    Error::NotFound(format!("{text} (send the HMAC-SHA256 of the body as `X-Signature-256: sha256=…`)"))
}

/// What a delivery is known by: what the trigger says of its body, else the sender's id of it. The inner error is the
/// reason for which it starts nothing.
fn key_of(trigger: &TriggerRecord, given: Option<&str>, data: &Value) -> Result<Result<Option<String>, String>, Error> {
    if let TriggerOn::Webhook { dedupe: Some(source), .. } = &trigger.on.on {
        match Dedupe::parse(source).and_then(|dedupe| dedupe.key(data)) {
            Ok(None) => {}
            decided => return Ok(decided),
        }
    }
    if given.is_some_and(|key| key.is_empty() || key.len() > MAX_KEY_BYTES) {
        return Err(Error::Invalid(format!("the id of a delivery has 1 to {MAX_KEY_BYTES} bytes")));
    }
    Ok(Ok(given.map(str::to_owned)))
}
