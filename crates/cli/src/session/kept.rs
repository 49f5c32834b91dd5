//! What a session is asked about things that are kept besides runs: versions, packages, agents, notifications, usage,
//! events.

use relais_server::views::{DeletionView, EventEffects, ImportedView, NotificationRow, UsageReport, VersionView};
use relais_service::{
    AgentChange, Error, Happened, NewAgent, OnClash, Removal, Service, UsageQuestion, WorkflowStatus,
};
use serde_json::Value;
use uuid::Uuid;

use super::Session;
use crate::library::{Agent, Employment, Shelved, Shelving};

impl Session {
    /// The versions of a workflow, newest first, and whether there are more.
    pub async fn versions(&self, workflow: &str, limit: usize) -> Result<(Vec<VersionView>, bool), Error> {
        match self {
            Session::Local(service) => {
                let (found, next) = service.versions(workflow, None, limit).await?;
                Ok((found.into_iter().map(|one| VersionView::new(one, false)).collect(), next.is_some()))
            }
            Session::Remote(client) => client.versions(workflow, limit).await,
        }
    }

    pub async fn version(&self, workflow: &str, number: u64) -> Result<VersionView, Error> {
        match self {
            Session::Local(service) => {
                Ok(VersionView::new(service.version(workflow, &number.to_string()).await?, true))
            }
            Session::Remote(client) => client.version(workflow, number).await,
        }
    }

    pub async fn roll_back(&self, workflow: &str, to: u64) -> Result<Shelved, Error> {
        match self {
            Session::Local(service) => service.roll_back(workflow, to, None).await.map(Shelved::from),
            Session::Remote(client) => client.roll_back(workflow, to).await,
        }
    }

    pub async fn accept_tools(&self, workflow: &str) -> Result<Shelved, Error> {
        match self {
            Session::Local(service) => service.accept_tools(workflow, None).await.map(Shelved::from),
            Session::Remote(client) => client.accept_tools(workflow).await,
        }
    }

    pub async fn set_status(&self, workflow: &str, status: WorkflowStatus) -> Result<Shelved, Error> {
        self.shelve(Some(workflow), Shelving { status: Some(status), ..Shelving::default() }).await
    }

    /// What a deletion would take away, or why it would be refused.
    pub async fn deletion(&self, workflow: &str, removal: Removal) -> Result<DeletionView, Error> {
        match self {
            Session::Local(service) => service.deletion(workflow, removal).await.map(DeletionView::from),
            Session::Remote(client) => client.deletion(workflow, removal).await,
        }
    }

    pub async fn delete_workflow(&self, workflow: &str, removal: Removal) -> Result<(), Error> {
        match self {
            Session::Local(service) => service.delete_workflow(workflow, removal, None).await,
            Session::Remote(client) => client.delete_workflow(workflow, removal).await,
        }
    }

    /// Workflows with all that they use, as one document.
    pub async fn export(&self, workflows: &[String], history: bool) -> Result<Value, Error> {
        match self {
            Session::Local(service) => {
                let package = service.export_workflows(workflows, history).await?;
                serde_json::to_value(package).map_err(|error| Error::Unusable(error.to_string()))
            }
            Session::Remote(client) => client.export(workflows, history).await,
        }
    }

    pub async fn import(&self, package: Value, on_clash: OnClash) -> Result<Vec<ImportedView>, Error> {
        match self {
            Session::Local(service) => {
                let imported = service.import_workflows(package, on_clash).await?;
                Ok(imported.all.into_iter().map(ImportedView::from).collect())
            }
            Session::Remote(client) => client.import(package, on_clash).await,
        }
    }

    /// Kept agents, newest first, and whether there are more.
    pub async fn agents(&self, limit: usize) -> Result<(Vec<Agent>, bool), Error> {
        match self {
            Session::Local(service) => {
                let (found, next) = service.agents(None, limit).await?;
                Ok((found.into_iter().map(Agent::from).collect(), next.is_some()))
            }
            Session::Remote(client) => client.agents(limit).await,
        }
    }

    pub async fn agent(&self, name: &str) -> Result<Agent, Error> {
        match self {
            Session::Local(service) => service.find_agent(name).await.map(Agent::from),
            Session::Remote(client) => client.agent(name).await,
        }
    }

    /// Makes an agent, or changes the one that is named.
    pub async fn employ(&self, to: Option<&str>, employment: Employment) -> Result<Agent, Error> {
        match self {
            Session::Local(service) => employed(service, to, employment).await,
            Session::Remote(client) => client.employ(to, &employment).await,
        }
    }

    pub async fn delete_agent(&self, name: &str) -> Result<(), Error> {
        match self {
            Session::Local(service) => service.delete_agent(name, None).await,
            Session::Remote(client) => client.delete_agent(name).await,
        }
    }

    pub async fn usage(&self, question: &UsageQuestion) -> Result<UsageReport, Error> {
        match self {
            Session::Local(service) => {
                take_note(service).await?;
                service.usage(question).await.map(UsageReport::from)
            }
            Session::Remote(client) => client.usage(question).await,
        }
    }

    /// Notifications, newest first, and whether there are more.
    pub async fn notifications(&self, unread: bool, limit: usize) -> Result<(Vec<NotificationRow>, bool), Error> {
        match self {
            Session::Local(service) => {
                take_note(service).await?;
                let found = service.notifications(unread, None, limit + 1).await?;
                let more = found.len() > limit;
                Ok((found.into_iter().take(limit).map(NotificationRow::from).collect(), more))
            }
            Session::Remote(client) => client.notifications(unread, limit).await,
        }
    }

    pub async fn mark_notification(&self, id: Uuid, read: bool) -> Result<(), Error> {
        match self {
            Session::Local(service) => service.mark_notification(id, read).await.map(drop),
            Session::Remote(client) => client.mark_notification(id, read).await,
        }
    }

    /// All that were not read; how many those were.
    pub async fn mark_all_notifications(&self) -> Result<usize, Error> {
        match self {
            Session::Local(service) => {
                take_note(service).await?;
                service.mark_all_notifications().await
            }
            Session::Remote(client) => client.mark_all_notifications().await,
        }
    }

    pub async fn publish_event(&self, happened: Happened) -> Result<EventEffects, Error> {
        match self {
            Session::Local(service) => service.publish_event(happened).await.map(EventEffects::from),
            Session::Remote(client) => client.publish_event(&happened).await,
        }
    }
}

/// Where no server is running, nobody has counted and told the runs that have ended; it happens once, whoever does it.
async fn take_note(service: &Service) -> Result<(), Error> {
    service.feed_once().await.map(drop)
}

async fn employed(service: &Service, to: Option<&str>, employment: Employment) -> Result<Agent, Error> {
    let Employment { name, description, definition } = employment;
    let kept = match to {
        Some(agent) => {
            let change = AgentChange { name, description, definition: Some(definition) };
            service.update_agent(agent, change, None).await
        }
        None => {
            let (name, description) = (name.unwrap_or_default(), description.unwrap_or_default());
            service.create_agent(NewAgent { name, description, definition, once: None }).await
        }
    };
    kept.map(Agent::from)
}
