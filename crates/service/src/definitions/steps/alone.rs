//! One step run by itself: a run of a workflow that has only this step. What its placeholders and conditions name is
//! given to the run.

use std::sync::Arc;

use relais_engine::{Mode, RunId, Target};
use relais_plan::Plan;
use uuid::Uuid;

use super::{StepRecord, text};
use crate::kept::At;
use crate::{Checked, Error, Format, Service, Start};

impl Service {
    /// A run of one step. `start.input` has `trigger_output` and `step_outputs` (by uuid) as far as the step names them.
    /// A checker that would stop a workflow ends the run as stopped.
    pub async fn run_step(&self, id: Uuid, start: Start) -> Result<RunId, Error> {
        let At { it: step, .. } = self.kept::<StepRecord>(&id.to_string()).await?;
        let source = text::of_step(&step);
        let loaded = relais_dialects::read_alone(&source);
        let definitions = &self.core.definitions;
        let definition = definitions.check_loaded(source, loaded, &definitions.files(), None);
        text::refuse(&definition.source, &definition.problems, &[&step], "the step cannot run")?;
        let Some(plan) = definition.plan else {
            return Err(Error::Unusable(format!("the step `{}` became no plan", step.name)));
        };
        let checked = self.ready_alone(plan, Format::Steps, &start.mode).await?;
        self.start(&checked, start).await
    }

    /// A plan that belongs to no kept workflow, ready to be started.
    pub(super) async fn ready_alone(&self, plan: Plan, format: Format, mode: &Mode) -> Result<Checked, Error> {
        if !mode.simulate {
            self.core.definitions.check_models(&plan, mode.model.as_deref())?;
            self.core.definitions.check_tools(&plan).await?;
        }
        self.keep_plan(&plan).await?;
        let (manifest, target) = (String::new(), Target::default());
        let (hash, plan) = (plan.hash(), Arc::new(plan));
        Ok(Checked { plan, hash, format, children: Vec::new(), version: 0, manifest, target })
    }
}
