//! Tokens: made by who may administer, listed and revoked by their users, too; and who one is.

use std::collections::BTreeSet;

use relais_service::access::{Access, Scope, TokenRecord};
use relais_service::{NewToken, Whose};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::{Administers, Known, may};
use crate::pages::{DEFAULT_LIMIT, Page, bounded};
use crate::problem::{Problem, Problems};
use crate::times::instant;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke)).routes(routes!(whoami))
}

/// A token, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub struct TokenView {
    pub id: Uuid,
    pub user: String,
    pub name: String,
    pub scopes: Vec<ScopeWord>,
    pub created_at: String,
    pub expires_at: Option<String>,
    pub revoked_at: Option<String>,
    /// To the minute.
    pub last_used_at: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScopeWord {
    /// See everything of the user.
    Read,
    /// Start runs, and act on them.
    Run,
    /// Change workflows, agents and triggers.
    Write,
    /// Everything, and what concerns all users.
    Admin,
}

impl From<Scope> for ScopeWord {
    fn from(scope: Scope) -> ScopeWord {
        match scope {
            Scope::Read => ScopeWord::Read,
            Scope::Run => ScopeWord::Run,
            Scope::Write => ScopeWord::Write,
            Scope::Admin => ScopeWord::Admin,
        }
    }
}

impl From<ScopeWord> for Scope {
    fn from(word: ScopeWord) -> Scope {
        match word {
            ScopeWord::Read => Scope::Read,
            ScopeWord::Run => Scope::Run,
            ScopeWord::Write => Scope::Write,
            ScopeWord::Admin => Scope::Admin,
        }
    }
}

fn words(scopes: BTreeSet<Scope>) -> Vec<ScopeWord> {
    scopes.into_iter().map(ScopeWord::from).collect()
}

impl From<TokenRecord> for TokenView {
    fn from(record: TokenRecord) -> TokenView {
        TokenView {
            id: record.id,
            user: record.user,
            name: record.name,
            scopes: words(record.scopes),
            created_at: instant(record.created_at),
            expires_at: record.expires_at.map(instant),
            revoked_at: record.revoked_at.map(instant),
            last_used_at: record.last_used_at.map(instant),
        }
    }
}

/// A token to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// Whose it is to be; default: the caller's.
    #[schema(max_length = 255)]
    pub user: Option<String>,
    /// What its user wants to remember it by.
    #[schema(max_length = 100)]
    pub name: String,
    #[schema(min_items = 1)]
    pub scopes: Vec<ScopeWord>,
    /// RFC 3339; default: never.
    #[schema(example = "2030-01-01T00:00:00Z")]
    pub expires_at: Option<String>,
}

/// A token with its secret, which is shown this once.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedToken {
    /// To be sent as `Authorization: Bearer <secret>`.
    pub secret: String,
    pub token: TokenView,
}

/// Who calls.
#[derive(Debug, Serialize, ToSchema)]
pub struct Whoami {
    pub user_id: String,
    pub scopes: Vec<ScopeWord>,
    /// Which of the user's tokens was presented; null for a JWT, and on the machine itself.
    pub token_id: Option<Uuid>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Listing {
    /// Of this user; needs the scope `admin` unless it is the caller.
    user: Option<String>,
    /// Of all users; needs the scope `admin`.
    #[serde(default)]
    all: bool,
    /// Items on the page.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "bounded")]
    limit: Option<usize>,
    /// `next` of the page before.
    cursor: Option<String>,
}

impl Listing {
    fn whose(&self, access: &Access) -> Result<Whose, Problem> {
        if self.all {
            may(access, Scope::Admin)?;
            return Ok(Whose::Everybodys);
        }
        let Some(user) = self.user.clone() else { return Ok(Whose::Own) };
        if access.may(Scope::Admin).is_err() {
            access.check_user_id(&user)?;
        }
        Ok(Whose::Of(user))
    }
}

/// List tokens: the caller's own, or those of others.
#[utoipa::path(get, path = "/tokens", operation_id = "list_tokens", tag = "tokens", params(Listing),
    responses((status = OK, body = Page<TokenView>), Problems))]
async fn list(Known(access, service): Known, Query(listing): Query<Listing>) -> Result<Json<Page<TokenView>>, Problem> {
    may(&access, Scope::Read)?;
    let whose = listing.whose(&access)?;
    let (found, next) = service.tokens(&whose, listing.cursor, listing.limit.unwrap_or(DEFAULT_LIMIT)).await?;
    Ok(Json(Page { items: found.into_iter().map(TokenView::from).collect(), next }))
}

/// Make a token for any user.
#[utoipa::path(post, path = "/tokens", operation_id = "create_token", tag = "tokens", request_body = CreateToken,
    responses((status = CREATED, body = CreatedToken), Problems))]
async fn create(Administers(service): Administers, Json(body): Json<CreateToken>) -> Result<Made, Problem> {
    let expires_at = body.expires_at.as_deref().map(time).transpose()?;
    let user = body.user.unwrap_or_else(|| service.user().to_owned());
    let scopes = body.scopes.into_iter().map(Scope::from).collect();
    let (secret, record) = service.create_token(NewToken { user, name: body.name, scopes, expires_at }).await?;
    let location = [(axum::http::header::LOCATION, format!("/api/v1/tokens/{}", record.id))];
    Ok((axum::http::StatusCode::CREATED, location, Json(CreatedToken { secret, token: record.into() })))
}

type Made = (axum::http::StatusCode, [(axum::http::HeaderName, String); 1], Json<CreatedToken>);

fn time(text: &str) -> Result<i64, Problem> {
    let wrong = || Problem::invalid(format!("expires_at: `{text}` is no time; write 2030-01-01T00:00:00Z"));
    relais_plan::time::parse_instant(text).ok_or_else(wrong)
}

/// Revoke a token: one of the caller's own (any may revoke itself, others need the scope `write`), or with the scope
/// `admin` anybody's.
#[utoipa::path(delete, path = "/tokens/{id}", operation_id = "revoke_token", tag = "tokens", params(("id" = Uuid, Path)),
    responses((status = NO_CONTENT), Problems))]
async fn revoke(Known(access, service): Known, Path(id): Path<Uuid>) -> Result<axum::http::StatusCode, Problem> {
    if access.token != Some(id) {
        may(&access, Scope::Write)?;
    }
    let whose = if access.may(Scope::Admin).is_ok() { Whose::Everybodys } else { Whose::Own };
    service.revoke_token(id, &whose).await?;
    Ok(axum::http::StatusCode::NO_CONTENT)
}

/// Tell who calls and what they may do.
#[utoipa::path(get, path = "/whoami", operation_id = "whoami", tag = "tokens",
    responses((status = OK, body = Whoami), Problems))]
async fn whoami(Known(access, _): Known) -> Json<Whoami> {
    Json(Whoami { user_id: access.user, scopes: words(access.scopes), token_id: access.token })
}
