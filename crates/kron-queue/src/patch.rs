//! Changing some of what a template or a schedule says, and leaving the rest.
//!
//! What stays is read in the transaction that writes, so that two changes of different fields at
//! the same time are both kept.

use serde_json::Value;

use crate::id::{ScheduleId, TemplateId};
use crate::schedule::{Schedule, ScheduleSettings, UpdateSchedule, schedule};
use crate::template::{DefinitionError, Template, TemplateSettings, UpdateTemplate, template};
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

/// What of a template is to change; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplatePatch {
    /// Another name.
    pub name: Option<String>,
    /// Another type.
    pub job_type: Option<String>,
    /// Other parameters, in place of the present ones.
    pub params: Option<Value>,
    /// Another priority.
    pub priority: Option<i64>,
}

/// Changes some of what a template says.
#[derive(Clone, Debug)]
pub struct PatchTemplate {
    /// Which.
    pub template_id: TemplateId,
    /// What is to change.
    pub patch: TemplatePatch,
    /// The time.
    pub now: Timestamp,
}

impl Operation for PatchTemplate {
    type Output = Template;
    type Error = DefinitionError;

    fn execute(self, context: &mut Context<'_>) -> Result<Template, DefinitionError> {
        let PatchTemplate { template_id, patch, now } = self;
        let old =
            template(context.db, template_id)?.ok_or(DefinitionError::NoTemplate(template_id))?;
        let settings = TemplateSettings {
            name: patch.name.unwrap_or(old.name),
            job_type: patch.job_type.unwrap_or(old.job_type),
            params: patch.params.unwrap_or(old.params),
            priority: patch.priority.unwrap_or(old.priority),
        };
        UpdateTemplate { template_id, settings, now }.execute(context)
    }
}

/// What of a schedule is to change; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulePatch {
    /// Another template.
    pub template_id: Option<TemplateId>,
    /// Another name.
    pub name: Option<String>,
    /// Another expression.
    pub cron_expression: Option<String>,
    /// Another zone; the inner absence means what the expression says, or UTC.
    pub timezone: Option<Option<String>>,
    /// Whether it makes jobs at all.
    pub enabled: Option<bool>,
    /// Other overrides in place of the present ones; the inner absence removes them.
    pub param_overrides: Option<Option<Value>>,
}

/// Changes some of what a schedule says.
#[derive(Clone, Debug)]
pub struct PatchSchedule {
    /// Which.
    pub schedule_id: ScheduleId,
    /// What is to change.
    pub patch: SchedulePatch,
    /// The time.
    pub now: Timestamp,
}

impl Operation for PatchSchedule {
    type Output = Schedule;
    type Error = DefinitionError;

    fn execute(self, context: &mut Context<'_>) -> Result<Schedule, DefinitionError> {
        let PatchSchedule { schedule_id, patch, now } = self;
        let old =
            schedule(context.db, schedule_id)?.ok_or(DefinitionError::NoSchedule(schedule_id))?;
        let settings = ScheduleSettings {
            template_id: patch.template_id.unwrap_or(old.template_id),
            name: patch.name.unwrap_or(old.name),
            cron_expression: patch.cron_expression.unwrap_or(old.cron_expression),
            timezone: patch.timezone.unwrap_or(Some(old.timezone)),
            enabled: patch.enabled.unwrap_or(old.enabled),
            param_overrides: patch.param_overrides.unwrap_or(old.param_overrides),
        };
        UpdateSchedule { schedule_id, settings, now }.execute(context)
    }
}
