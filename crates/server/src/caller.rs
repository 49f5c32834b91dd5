//! Who calls, and what they may do. A handler that takes [`Reads`], [`Runs`], [`Writes`] or [`Administers`] is reached
//! only by those who may; it sees nothing but a service that is the caller's own.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use relais_service::Service;

use crate::App;
use crate::problem::Problem;

macro_rules! allowed {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name(pub Service);

        impl FromRequestParts<App> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<$name, Problem> {
                caller(parts, app).map($name)
            }
        }
    )*};
}

allowed! {
    /// May see everything of its user.
    Reads;
    /// May start, stop and answer runs.
    Runs;
    /// May change workflows, agents and triggers.
    Writes;
    /// May do what concerns all users.
    Administers;
}

fn caller(_parts: &mut Parts, app: &App) -> Result<Service, Problem> {
    Ok(app.service.clone())
}
