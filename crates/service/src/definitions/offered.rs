//! The workflows that are offered as tools of their own.

use std::sync::Arc;

use relais_plan::Plan;

use crate::definitions::workflows::{Workflow, WorkflowList};
use crate::{Error, Service};

/// Workflows that are looked through for published ones; whoever has more sees the newest of them.
const LOOKED_THROUGH: usize = 1_000;

impl Service {
    /// The published workflows that can be started, oldest first, with their plans.
    pub async fn published(&self, limit: usize) -> Result<Vec<(Workflow, Arc<Plan>)>, Error> {
        let list = WorkflowList { limit: LOOKED_THROUGH, ..WorkflowList::default() };
        let (found, _) = self.workflows(list).await?;
        let all = found.into_iter().rev().map(|at| at.it);
        let mut offered = Vec::new();
        for workflow in all.filter(|workflow| workflow.published && workflow.plan.is_some()).take(limit) {
            let plan = self.startable(&workflow, None, None).await?.plan;
            offered.push((workflow, plan));
        }
        Ok(offered)
    }
}
