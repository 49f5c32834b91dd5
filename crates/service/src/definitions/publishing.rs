//! Workflows of files on this machine: what a file says becomes a version of the workflow of its name, when it is run.
//!
//! A file that is run sets no triggers: whoever runs it once does not ask for it to be run again.

use relais_engine::Target;
use relais_plan::{Plan, Source};
use relais_runtime::tool::ToolSpec;
use relais_runtime::tools::Manifest;
use relais_store::{Edit, Expect};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::definitions::drift;
use crate::definitions::versions::{executors, version_key};
use crate::definitions::workflows::{Version, Workflow};
use crate::kept::{self, At};
use crate::{Checked, Error, Service};

/// How often a version is tried to be kept while others keep theirs.
const MAX_TRIES: usize = 10;

impl Service {
    /// A new version for every change; the tools as they were then are kept with it.
    pub(crate) async fn keep_version(
        &self,
        checked: &mut Checked,
        source: &Source,
        tools: Option<&[ToolSpec]>,
    ) -> Result<(), Error> {
        for _ in 0..MAX_TRIES {
            match self.try_version(checked, source, tools).await {
                // Another process was first; the next look finds its version.
                Err(Error::Stale(_)) => {}
                done => return done,
            }
        }
        Err(Error::Busy(format!("the workflow `{}` is being changed by others; try again", checked.plan.name)))
    }

    /// A plan that a run is to be started from, and that no version holds.
    pub(crate) async fn keep_plan(&self, plan: &Plan) -> Result<(), Error> {
        match self.plan_edit(plan).await? {
            Some(edit) => self.change(vec![edit]).await.map(drop),
            None => Ok(()),
        }
    }

    async fn try_version(
        &self,
        checked: &mut Checked,
        source: &Source,
        tools: Option<&[ToolSpec]>,
    ) -> Result<(), Error> {
        let id = file_id(self.user(), &checked.plan.name);
        let known: Option<At<Workflow>> = self.find_kept(&id.to_string()).await?;
        let hash = checked.hash.clone();
        if let Some(At { it: workflow, .. }) = known.as_ref().filter(|at| at.it.version > 0) {
            let newest = self.version_of(workflow, None).await?;
            if newest.plan_of(checked.target.branch.as_deref()) == Some(&hash) {
                meant(checked, workflow);
                let name = checked.plan.name.clone();
                return tools.map_or(Ok(()), |tools| drift::tell(checked, &name, &newest, tools));
            }
        }
        let nothing = || json!({ "version": self.today(), "hash": "" });
        let manifest = tools.map_or_else(nothing, |tools| Manifest::new(self.today(), tools).kept());
        let (workflow, edits) = self.file_edits(checked, source, manifest, known).await?;
        self.change(edits).await?;
        meant(checked, &workflow);
        Ok(())
    }

    async fn file_edits(
        &self,
        checked: &Checked,
        source: &Source,
        manifest: Value,
        known: Option<At<Workflow>>,
    ) -> Result<(Workflow, Vec<Edit>), Error> {
        let (now, version) = (self.core.clock.now(), file_version(checked, source, manifest));
        let (mut workflow, expect) = match known {
            Some(At { it, revision }) => (it, Expect::Revision(revision)),
            None => (self.new_of_file(checked).await?, Expect::Absent),
        };
        workflow.version += 1;
        workflow.format = Some(version.format.clone());
        workflow.plan = version.plan.clone();
        workflow.manifest = version.manifest.clone();
        workflow.definition = executors(&version);
        workflow.file = Some(source.name.clone());
        workflow.description = checked.plan.description.clone();
        workflow.updated_at = now;
        let mut edits = Vec::new();
        for plan in checked.children.iter().chain([checked.plan.as_ref()]) {
            edits.extend(self.plan_edit(plan).await?);
        }
        edits.push(self.version_edit(&workflow, &version)?);
        edits.push(kept::put(self.user(), &workflow, expect)?);
        Ok((workflow, edits))
    }

    /// One that was deleted counts on from the versions that it left.
    async fn new_of_file(&self, checked: &Checked) -> Result<Workflow, Error> {
        let name = checked.plan.name.clone();
        let mut workflow = Workflow::new(file_id(self.user(), &name), name, self.core.clock.now());
        let left = self.core.store.get_document(version_key(self.user(), workflow.id), None).await?;
        workflow.version = left.map_or(0, |document| document.version);
        Ok(workflow)
    }
}

/// The workflow of all files of this name: the same for each process, without looking.
fn file_id(user: &str, name: &str) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{user}\nfile\n{name}").as_bytes())
}

fn meant(checked: &mut Checked, workflow: &Workflow) {
    let version = u32::try_from(workflow.version).unwrap_or(u32::MAX);
    checked.version = workflow.version;
    checked.target = Target { workflow: workflow.id.to_string(), version, ..checked.target.clone() };
}

fn file_version(checked: &Checked, source: &Source, manifest: Value) -> Version {
    let (hash, branch) = (checked.hash.clone(), checked.target.branch.clone());
    Version {
        definition: source.text.clone(),
        format: checked.format.word().to_owned(),
        plan: Some(hash.clone()).filter(|_| branch.is_none()),
        branches: branch.map(|branch| (branch, hash)).into_iter().collect(),
        manifest,
        agents: Vec::new(),
        reason: "published from a file".to_owned(),
    }
}
