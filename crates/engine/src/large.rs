//! Outputs that do not travel inline, whole: for whoever keeps them in another place, too.

use relais_plan::NodeId;
use relais_plan::expr::EvalError;

use crate::decide::Context;
use crate::event::{Event, ScopeId, StepStatus, Stored};
use crate::names::View;
use crate::run::Run;

/// The steps that these events have completed.
pub fn completed_in(events: &[Event]) -> Vec<(ScopeId, NodeId)> {
    let completed = events.iter().filter_map(|event| match event {
        Event::Left(left) if left.status == StepStatus::Completed => Some((left.scope, left.node)),
        Event::Left(_) | Event::Opened(_) | Event::Entered { .. } | Event::Asked { .. } | Event::Answered { .. } => {
            None
        }
        Event::Branched { .. } | Event::Received { .. } | Event::Signalled { .. } => None,
        Event::Settled { .. } | Event::Closed { .. } => None,
    });
    completed.collect()
}

/// All steps that have completed, in the order of their scopes.
pub fn completed(run: &Run) -> Vec<(ScopeId, NodeId)> {
    let scopes = run.scopes.iter().enumerate();
    let steps = scopes.flat_map(|(scope, place)| place.steps.iter().map(move |(node, step)| (scope, *node, step)));
    let completed = steps.filter(|(_, _, step)| step.status == StepStatus::Completed);
    completed.map(|(scope, node, _)| (scope as ScopeId, node)).collect()
}

/// A step's output as JSON that people can read, if it is too large to travel inline; or the hash of the value that
/// must be loaded first.
pub fn large_output(ctx: &Context<'_>, run: &Run, scope: ScopeId, node: NodeId) -> Result<Option<String>, String> {
    if let Some(Stored::Value(_)) = run.instance(scope, node).and_then(|step| step.output.as_ref()) {
        return Ok(None);
    }
    let view = View { ctx, run, scope, node: Some(node), event: None, own: None };
    match view.output(scope, node) {
        Ok(value) if value.to_string().len() as u64 > ctx.program.plan.limits.inline_bytes => {
            Ok(Some(format!("{value:#}\n")))
        }
        Ok(_) | Err(EvalError::Reference(_) | EvalError::Type(_) | EvalError::Limit(_)) => Ok(None),
        Err(EvalError::Load(hash)) => Err(hash),
    }
}
