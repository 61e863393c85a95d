//! Templates: settings that jobs and schedules share.
//!
//! A change never reaches jobs that were made already. A template that was deleted keeps its row,
//! because jobs name it, and makes no more jobs.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::change::Change;
use crate::error::{StoreError, area_error};
use crate::id::{ScheduleId, TemplateId};
use crate::input::{self, Invalid};
use crate::limits::PAGE_ROWS_MAX;
use crate::model::Columns;
use crate::queue::Queue;
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

/// A template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Template {
    /// Its id.
    pub template_id: TemplateId,
    /// Its name, which no other has.
    pub name: String,
    /// The type of its jobs.
    pub job_type: String,
    /// What its jobs are told.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub params: Value,
    /// The priority of its jobs.
    pub priority: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// What a template says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateSettings {
    /// Its name, which no other has.
    pub name: String,
    /// The type of its jobs.
    pub job_type: String,
    /// What its jobs are told.
    pub params: Value,
    /// The priority of its jobs.
    #[serde(default)]
    pub priority: i64,
}

/// Makes a template.
#[derive(Clone, Debug)]
pub struct CreateTemplate {
    /// What it says.
    pub settings: TemplateSettings,
    /// The time.
    pub now: Timestamp,
}

/// Replaces what a template says.
#[derive(Clone, Debug)]
pub struct UpdateTemplate {
    /// Which.
    pub template_id: TemplateId,
    /// What it says from now on.
    pub settings: TemplateSettings,
    /// The time.
    pub now: Timestamp,
}

/// Deletes a template that no schedule uses.
#[derive(Clone, Copy, Debug)]
pub struct DeleteTemplate {
    /// Which.
    pub template_id: TemplateId,
    /// The time.
    pub now: Timestamp,
}

/// Why a template or a schedule stays as it is.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DefinitionError {
    /// Something is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no such template.
    #[error("there is no template `{0}`")]
    NoTemplate(TemplateId),
    /// There is no such schedule.
    #[error("there is no schedule `{0}`")]
    NoSchedule(ScheduleId),
    /// Another has the name.
    #[error("the name `{0}` is taken")]
    NameTaken(String),
    /// A schedule uses the template.
    #[error("template `{template_id}` is used by schedule `{schedule_id}`")]
    InUse {
        /// The template.
        template_id: TemplateId,
        /// The schedule.
        schedule_id: ScheduleId,
    },
    /// The expression is wrong.
    #[error("{message}")]
    Expression {
        /// What is wrong.
        message: String,
        /// What to do about it.
        help: Option<String>,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
area_error!(DefinitionError);

impl DefinitionError {
    /// The word that stands for it in answers to programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            DefinitionError::Invalid(invalid) => invalid.code(),
            DefinitionError::NoTemplate(_) => "no-template",
            DefinitionError::NoSchedule(_) => "no-schedule",
            DefinitionError::NameTaken(_) => "name-taken",
            DefinitionError::InUse { .. } => "in-use",
            DefinitionError::Expression { .. } => "bad-expression",
            DefinitionError::Store(error) => error.code(),
        }
    }
}

/// Checks settings and gives the text of their parameters.
fn check(
    context: &Context<'_>,
    settings: &TemplateSettings,
    own: Option<TemplateId>,
) -> Result<String, DefinitionError> {
    input::name("name", &settings.name)?;
    input::job_type(&settings.job_type)?;
    input::priority(settings.priority)?;
    let text = input::params("params", &settings.params)?;
    let other: Option<TemplateId> = context
        .db
        .prepare_cached(
            "SELECT template_id FROM job_templates WHERE name = ?1 AND deleted_at IS NULL",
        )?
        .query_row([&settings.name], |row| row.get(0))
        .optional()?;
    if other.is_some() && other != own {
        return Err(DefinitionError::NameTaken(settings.name.clone()));
    }
    Ok(text)
}

impl Operation for CreateTemplate {
    type Output = Template;
    type Error = DefinitionError;

    fn execute(self, context: &mut Context<'_>) -> Result<Template, DefinitionError> {
        let text = check(context, &self.settings, None)?;
        let template_id = TemplateId(context.id(self.now)?);
        let TemplateSettings { name, job_type, priority, .. } = &self.settings;
        context
            .db
            .prepare_cached(
                "INSERT INTO job_templates (template_id, name, job_type, params, priority, \
                 created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
            )?
            .execute(params![template_id, name, job_type, text, priority, self.now])?;
        context.announce(Change::Template { template_id });
        template(context.db, template_id)?.ok_or(DefinitionError::NoTemplate(template_id))
    }
}

impl Operation for UpdateTemplate {
    type Output = Template;
    type Error = DefinitionError;

    fn execute(self, context: &mut Context<'_>) -> Result<Template, DefinitionError> {
        let template_id = self.template_id;
        let text = check(context, &self.settings, Some(template_id))?;
        let TemplateSettings { name, job_type, priority, .. } = &self.settings;
        let updated = context
            .db
            .prepare_cached(
                "UPDATE job_templates SET name = ?2, job_type = ?3, params = ?4, priority = ?5, \
                 updated_at = ?6 WHERE template_id = ?1 AND deleted_at IS NULL",
            )?
            .execute(params![template_id, name, job_type, text, priority, self.now])?;
        if updated == 0 {
            return Err(DefinitionError::NoTemplate(template_id));
        }
        context.announce(Change::Template { template_id });
        template(context.db, template_id)?.ok_or(DefinitionError::NoTemplate(template_id))
    }
}

impl Operation for DeleteTemplate {
    type Output = ();
    type Error = DefinitionError;

    fn execute(self, context: &mut Context<'_>) -> Result<(), DefinitionError> {
        let template_id = self.template_id;
        let user: Option<ScheduleId> = context
            .db
            .prepare_cached(
                "SELECT schedule_id FROM schedules WHERE template_id = ?1 AND deleted_at IS NULL",
            )?
            .query_row([template_id], |row| row.get(0))
            .optional()?;
        if let Some(schedule_id) = user {
            return Err(DefinitionError::InUse { template_id, schedule_id });
        }
        let deleted = context
            .db
            .prepare_cached(
                "UPDATE job_templates SET deleted_at = ?2 \
                 WHERE template_id = ?1 AND deleted_at IS NULL",
            )?
            .execute(params![template_id, self.now])?;
        if deleted == 0 {
            return Err(DefinitionError::NoTemplate(template_id));
        }
        context.announce(Change::Template { template_id });
        Ok(())
    }
}

const TEMPLATE_COLUMNS: &str =
    "template_id, name, job_type, params, priority, created_at, updated_at";

fn from_row(row: &Row<'_>) -> rusqlite::Result<Template> {
    let mut columns = Columns { row, next: 0 };
    Ok(Template {
        template_id: columns.take()?,
        name: columns.take()?,
        job_type: columns.take()?,
        params: columns.json()?,
        priority: columns.take()?,
        created_at: columns.take()?,
        updated_at: columns.take()?,
    })
}

pub(crate) fn template(db: &Connection, id: TemplateId) -> Result<Option<Template>, StoreError> {
    let sql = format!(
        "SELECT {TEMPLATE_COLUMNS} FROM job_templates WHERE template_id = ?1 AND deleted_at IS NULL"
    );
    Ok(db.prepare_cached(&sql)?.query_row([id], from_row).optional()?)
}

impl Queue {
    /// A template.
    ///
    /// # Errors
    /// When the database fails.
    pub fn template(&self, id: TemplateId) -> Result<Option<Template>, StoreError> {
        self.read(|db| template(db, id))
    }

    /// Templates after `after`, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn templates(
        &self,
        after: Option<TemplateId>,
        rows_max: usize,
    ) -> Result<Vec<Template>, StoreError> {
        self.read(|db| {
            let sql = format!(
                "SELECT {TEMPLATE_COLUMNS} FROM job_templates WHERE deleted_at IS NULL \
                 AND template_id > ?1 ORDER BY template_id LIMIT ?2"
            );
            let after = after.map(|id| id.to_string()).unwrap_or_default();
            let mut statement = db.prepare_cached(&sql)?;
            let limit = rows_max.clamp(1, PAGE_ROWS_MAX) as i64;
            let rows = statement.query_map(params![after, limit], from_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}
