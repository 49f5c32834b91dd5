//! Who calls, and what they may do. A handler that takes [`Reads`], [`Runs`], [`Writes`] or [`Administers`] is reached
//! only by those who may; it sees nothing but a service that is the caller's own. [`Known`] is anybody who has shown who
//! they are.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use relais_runtime::settings::AuthSettings;
use relais_service::access::{Access, Scope};
use relais_service::{Error, Service};

use crate::App;
use crate::account::Connection;
use crate::origin::{Network, is_from_this_machine, remote};
use crate::problem::Problem;

macro_rules! allowed {
    ($($(#[$doc:meta])* $name:ident => $scope:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name(pub Service);

        impl FromRequestParts<App> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<$name, Problem> {
                let access = known(parts, app).await?;
                may(&access, Scope::$scope)?;
                Ok($name(app.service.as_user(&access.user)))
            }
        }
    )*};
}

allowed! {
    /// May see everything of its user.
    Reads => Read;
    /// May start, stop and answer runs.
    Runs => Run;
    /// May change workflows, agents and triggers.
    Writes => Write;
    /// May do what concerns all users.
    Administers => Admin;
}

/// Somebody who has shown who they are, whatever they may do.
pub struct Known(pub Access, pub Service);

impl FromRequestParts<App> for Known {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Known, Problem> {
        let access = known(parts, app).await?;
        let service = app.service.as_user(&access.user);
        Ok(Known(access, service))
    }
}

/// Refuses whoever lacks the scope, naming it.
pub fn may(access: &Access, scope: Scope) -> Result<(), Problem> {
    access.may(scope).map_err(|error| {
        Problem::from(error)
            .challenge(format!("Bearer realm=\"relais\", error=\"insufficient_scope\", scope=\"{scope}\""))
    })
}

/// Who may come in without a token, and whose word on addresses is taken.
#[derive(Default)]
pub struct Gate {
    /// Programs of the account that runs the server and of root, who could read the database file anyway.
    is_open: bool,
    trusted: Vec<Network>,
}

impl Gate {
    pub fn new(address: SocketAddr, require_token: bool, settings: &AuthSettings) -> Result<Gate, String> {
        let trusted = settings.trusted_proxies.iter().map(|text| text.parse()).collect::<Result<_, String>>();
        let trusted = trusted.map_err(|wrong| format!("[auth] trusted_proxies: {wrong}"))?;
        let is_open = address.ip().to_canonical().is_loopback() && !require_token && !settings.require_token;
        Ok(Gate { is_open, trusted })
    }

    async fn without_token(&self, parts: &Parts, user: &str) -> Result<Access, Problem> {
        if !self.is_open {
            let text = "This server lets nobody in without a token: send it as `Authorization: Bearer …`.";
            return Err(Error::Unauthorized(format!("{text} {MAKE_ONE}")).into());
        }
        is_from_this_machine(peer(parts), parts).map_err(|why| {
            let text =
                format!("Without a token only programs on this machine are let in; this was refused since {why}.");
            Problem::from(Error::Forbidden(text))
        })?;
        must_be_own_account(parts).await?;
        Ok(Access::local(user))
    }
}

const MAKE_ONE: &str = "`relais token create` makes one where the database is.";

/// Other accounts of this machine could not read the database file, and so are not let in as its owner.
async fn must_be_own_account(parts: &Parts) -> Result<(), Problem> {
    let connection = parts.extensions.get::<Arc<Connection>>().cloned();
    let found = match connection {
        Some(connection) => connection.must_be_own().await,
        None => Err("the connection is not known".to_owned()),
    };
    found.map_err(|why| {
        let text = "Without a token only programs of the account that runs this server are let in";
        let how = "send a token as `Authorization: Bearer …`.";
        Error::Unauthorized(format!("{text}, and {why}: {how} {MAKE_ONE}")).into()
    })
}

/// Looked up once for each request, by whichever extractor comes first.
pub async fn known(parts: &mut Parts, app: &App) -> Result<Access, Problem> {
    if let Some(access) = parts.extensions.get::<Access>() {
        return Ok(access.clone());
    }
    let access = match presented(&parts.headers)? {
        Some(token) => admit(token, parts, app).await?,
        None => app.gate.without_token(parts, app.service.user()).await?,
    };
    take_user_id(parts, &access)?;
    parts.extensions.insert(access.clone());
    Ok(access)
}

async fn admit(token: &str, parts: &Parts, app: &App) -> Result<Access, Problem> {
    app.service.admit(token, from(parts, app)).await.map_err(|error| match error {
        Error::Unauthorized(_) => Problem::from(error).challenge("Bearer realm=\"relais\", error=\"invalid_token\""),
        other => other.into(),
    })
}

/// The address that a wrong try counts for.
pub fn from(parts: &Parts, app: &App) -> IpAddr {
    let peer = peer(parts).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    remote(peer, &parts.headers, &app.gate.trusted)
}

fn peer(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
}

/// What stands in `Authorization`. Whoever presents something is judged by it and by nothing else.
pub fn presented(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value.to_str().ok(),
        (Some(_), Some(_)) => None,
    };
    let token =
        value.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let text = "`Authorization` must be there once and say `Bearer` and a token.";
    let unread = || Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", text);
    token.map(|(_, token)| Some(token.trim())).ok_or_else(unread)
}

/// Every call may name the user that it is for, which must be the caller; the route need not know of it.
fn take_user_id(parts: &mut Parts, access: &Access) -> Result<(), Problem> {
    let Some(query) = parts.uri.query() else { return Ok(()) };
    let (users, rest): (Vec<&str>, Vec<&str>) = query.split('&').partition(|pair| user_id(pair).is_some());
    if users.is_empty() {
        return Ok(());
    }
    for user in users.into_iter().filter_map(user_id) {
        access.check_user_id(&user)?;
    }
    let (path, mut uri) = (format!("{}?{}", parts.uri.path(), rest.join("&")), parts.uri.clone().into_parts());
    uri.path_and_query = PathAndQuery::try_from(path).ok();
    parts.uri = Uri::from_parts(uri).unwrap_or_default();
    Ok(())
}

/// The value of `user_id=…`.
fn user_id(pair: &str) -> Option<String> {
    let uri = PathAndQuery::try_from(format!("/?{pair}")).ok().map(Uri::from)?;
    let read = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri).ok()?;
    read.0.into_iter().find(|(name, _)| name == "user_id").map(|(_, user)| user)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_presented_is_a_bearer_token_or_an_error() {
        // What is made of it, or nothing where it is refused.
        let table: [(&[&str], Option<Option<&str>>); 9] = [
            (&[], Some(None)),
            (&["Bearer abc"], Some(Some("abc"))),
            (&["bearer  abc "], Some(Some("abc"))),
            (&["Bearer "], Some(Some(""))),
            (&["Bearer"], None),
            (&["Basic abc"], None),
            (&["abc"], None),
            (&[""], None),
            (&["Bearer a", "Bearer b"], None),
        ];
        for (values, expected) in table {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, value.parse().unwrap());
            }
            let found = presented(&headers);
            assert!(found.as_ref().err().is_none_or(|problem| problem.status == 401), "{values:?}");
            assert_eq!(found.ok(), expected, "{values:?}");
        }
    }

    #[test]
    fn the_gate_is_open_on_this_machine_only() {
        let table = [
            ("127.0.0.1:1", false, false, true),
            ("[::1]:1", false, false, true),
            ("127.0.0.1:1", true, false, false),
            ("127.0.0.1:1", false, true, false),
            ("0.0.0.0:1", false, false, false),
            ("[::]:1", false, false, false),
            ("192.0.2.1:1", false, false, false),
        ];
        for (address, option, setting, expected) in table {
            let settings = AuthSettings { require_token: setting, ..AuthSettings::default() };
            let gate = Gate::new(address.parse().unwrap(), option, &settings).unwrap();
            assert_eq!(gate.is_open, expected, "{address} {option} {setting}");
        }
        let settings = AuthSettings { trusted_proxies: vec!["proxy".into()], ..AuthSettings::default() };
        let error = Gate::new("127.0.0.1:1".parse().unwrap(), false, &settings).err().unwrap();
        assert!(error.starts_with("[auth] trusted_proxies: `proxy` is no address"), "{error}");
    }
}
