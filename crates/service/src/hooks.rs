//! Addresses that others send data to, and the trigger behind each. One address belongs to one user.

use relais_plan::TriggerOn;
use relais_runtime::mask::Secrets;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::kept::{self, Kept};
use crate::sent::{Fate, Sent};
use crate::signature::{self, Given};
use crate::{Error, Service, TriggerRecord};

/// Hooks are found before it is known whose they are, so no user owns the records.
pub(crate) const NOBODY: &str = "";
/// Longer keys of senders are none.
const MAX_KEY_BYTES: usize = 255;

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

/// What was sent to a webhook, as it came.
#[derive(Debug, Clone, Copy)]
pub struct Posted<'a> {
    pub body: &'a [u8],
    pub signature: Option<Given<'a>>,
    /// The sender's id of this delivery.
    pub key: Option<&'a str>,
}

impl Service {
    /// Starts a run of the trigger behind a webhook, if its filter lets it, whoever sends it. The body is read only
    /// after its signature was found right.
    pub async fn fire_hook(
        &self,
        id: &str,
        posted: Posted<'_>,
        read: impl FnOnce() -> Result<Value, Error>,
    ) -> Result<Fate, Error> {
        let unknown = || Error::NotFound(format!("there is no webhook {id}"));
        let found = self.core.store.get_record(kept::key::<Hook>(NOBODY, id)).await?;
        let hook = kept::read::<Hook>(found.ok_or_else(unknown)?)?.it;
        let service = self.as_user(&hook.owner);
        let at = service.find_kept::<TriggerRecord>(&hook.trigger.to_string()).await?.ok_or_else(unknown)?;
        service.check_signature(&at.it, &posted)?;
        if posted.key.is_some_and(|key| key.is_empty() || key.len() > MAX_KEY_BYTES) {
            return Err(Error::Invalid(format!("the id of a delivery has 1 to {MAX_KEY_BYTES} bytes")));
        }
        let sent = Sent { key: posted.key.map(str::to_owned), data: read()? };
        service.fire_sent(at, &sent).await
    }

    /// Where the trigger names a secret, only who knows it is heard.
    fn check_signature(&self, trigger: &TriggerRecord, posted: &Posted<'_>) -> Result<(), Error> {
        let TriggerOn::Webhook { secret: Some(secret), .. } = &trigger.on.on else { return Ok(()) };
        let secrets = Secrets::new(&self.config().settings.secrets);
        let unset = |error| Error::Unusable(format!("the secret of this webhook cannot be read: {error}"));
        let secret = secrets.expand(secret).map_err(unset)?;
        let unsigned = "this webhook is signed: send the HMAC-SHA256 of the body as `X-Signature-256: sha256=…`";
        let given = posted.signature.ok_or_else(|| Error::Unauthorized(unsigned.to_owned()))?;
        let now_s = self.core.clock.now().div_euclid(1_000);
        signature::verify(&secret, posted.body, given, now_s).map_err(Error::Unauthorized)
    }
}
