//! Schedules: when templates make jobs.
//!
//! An expression has all of Kron's modifiers; what it means is `kron-core`'s business. A new
//! schedule, an edit and the end of a suspension never run the past: they leave marks
//! (`created_at`, `effective_from`, `resumed_at`) that the rules of `kron-core` look at.

use std::collections::HashMap;
use std::sync::Arc;

use kron_core::{Draft, Finding, Host, Modifier, Piece, Timing, TimingParser, UtcSecond};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::change::Change;
use crate::error::StoreError;
use crate::id::{ScheduleId, TemplateId};
use crate::input;
use crate::limits::{EXPRESSION_BYTES_MAX, PAGE_ROWS_MAX, TIMINGS_MAX, UPCOMING_MAX};
use crate::model::Columns;
use crate::queue::Queue;
use crate::template::{self, DefinitionError};
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

/// A schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Schedule {
    /// Its id.
    pub schedule_id: ScheduleId,
    /// The template of its jobs.
    pub template_id: TemplateId,
    /// Its name, which no other has.
    pub name: String,
    /// When it makes jobs.
    pub cron_expression: String,
    /// The zone of its wall times.
    pub timezone: String,
    /// Whether it makes jobs at all.
    pub enabled: bool,
    /// Laid over the template's parameters (RFC 7396).
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub param_overrides: Option<Value>,
    /// When it last made a job.
    pub last_triggered_at: Option<Timestamp>,
    /// The chosen time of its next period.
    pub next_trigger_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// The latest period with an outcome.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_handled_period: Option<UtcSecond>,
    /// When its present definition took effect, if it is not the first.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub effective_from: Option<UtcSecond>,
    /// When it was last enabled again.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub resumed_at: Option<UtcSecond>,
}

/// What is decided about a period to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Upcoming {
    /// The period.
    pub period_id: String,
    /// Its nominal time.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub nominal_time: UtcSecond,
    /// When its window begins.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub window_start: UtcSecond,
    /// When its window ends.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub window_end: UtcSecond,
    /// When it makes its job; absent if no time in its window is allowed.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub chosen_time: Option<UtcSecond>,
}

/// What a schedule says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSettings {
    /// The template of its jobs.
    pub template_id: TemplateId,
    /// Its name, which no other has.
    pub name: String,
    /// When it makes jobs.
    pub cron_expression: String,
    /// The zone; what the expression says, or UTC, if absent.
    #[serde(default)]
    pub timezone: Option<String>,
    /// Whether it makes jobs at all.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// Laid over the template's parameters.
    #[serde(default)]
    pub param_overrides: Option<Value>,
}

fn enabled() -> bool {
    true
}

/// Makes a schedule.
#[derive(Clone, Debug)]
pub struct CreateSchedule {
    /// What it says.
    pub settings: ScheduleSettings,
    /// The time.
    pub now: Timestamp,
}

/// Replaces what a schedule says.
#[derive(Clone, Debug)]
pub struct UpdateSchedule {
    /// Which.
    pub schedule_id: ScheduleId,
    /// What it says from now on.
    pub settings: ScheduleSettings,
    /// The time.
    pub now: Timestamp,
}

/// Deletes a schedule; its jobs stay.
#[derive(Clone, Copy, Debug)]
pub struct DeleteSchedule {
    /// Which.
    pub schedule_id: ScheduleId,
    /// The time.
    pub now: Timestamp,
}

/// Timings that were read from expressions, so that a schedule is read once.
#[derive(Default)]
pub(crate) struct Timings {
    parser: TimingParser,
    read_count: usize,
    known: HashMap<ScheduleId, (String, Arc<Timing>)>,
}

impl Timings {
    /// The timing of an expression in a zone, for the schedule of this id.
    pub(crate) fn read(
        &mut self,
        id: ScheduleId,
        expression: &str,
        timezone: Option<&str>,
    ) -> Result<Arc<Timing>, DefinitionError> {
        let key = format!("{} {expression}", timezone.unwrap_or_default());
        if let Some((_, timing)) = self.known.get(&id).filter(|(known, _)| *known == key) {
            return Ok(Arc::clone(timing));
        }
        self.read_count += 1;
        if self.read_count > TIMINGS_MAX {
            *self = Timings::default();
        }
        let identity = format!("schedule/{id}");
        let mut findings = Vec::new();
        let mut draft = Draft::new(&identity, Host::default());
        self.parser.whole_expression(&mut draft, Piece::whole(expression), &mut findings);
        let said = draft.has(Modifier::Tz);
        if let Some(name) = timezone {
            let zone = self.parser.zone(Piece::whole(name)).map_err(|finding| wrong(&finding))?;
            draft.default_zone(&zone);
        }
        let timing = self.parser.finish(draft, &mut findings);
        if let Some(finding) = findings.iter().find(|finding| finding.is_error()) {
            return Err(wrong(finding));
        }
        let timing = timing.ok_or_else(|| DefinitionError::Expression {
            message: "the expression cannot be understood".to_owned(),
            help: None,
        })?;
        let zone = timing.placement().zone().name();
        if let Some(other) = timezone.filter(|name| said && *name != zone) {
            return Err(DefinitionError::Expression {
                message: format!("the expression says `{zone}` and `timezone` says `{other}`"),
                help: Some("say it in one place".to_owned()),
            });
        }
        let timing = Arc::new(timing);
        self.known.insert(id, (key, Arc::clone(&timing)));
        Ok(timing)
    }

    fn forget(&mut self, id: ScheduleId) {
        self.known.remove(&id);
    }
}

fn wrong(finding: &Finding) -> DefinitionError {
    DefinitionError::Expression { message: finding.message.clone(), help: finding.help.clone() }
}

/// When the next period after `now` falls due, as far as the schedule makes jobs at all.
pub(crate) fn next_trigger(timing: &Timing, enabled: bool, now: Timestamp) -> Option<Timestamp> {
    let active = enabled && !timing.policy.suspend;
    let mut due = timing.due_after(now.second());
    active.then(|| due.next()).flatten().map(|decision| Timestamp::from(decision.due()))
}

/// Checks settings and gives the text of the overrides.
fn check(
    context: &Context<'_>,
    settings: &ScheduleSettings,
    own: Option<ScheduleId>,
) -> Result<Option<String>, DefinitionError> {
    input::name("name", &settings.name)?;
    input::text("cron_expression", &settings.cron_expression, EXPRESSION_BYTES_MAX)?;
    if let Some(zone) = &settings.timezone {
        input::name("timezone", zone)?;
    }
    let overrides = settings.param_overrides.as_ref();
    let text = overrides.map(|params| input::params("param_overrides", params)).transpose()?;
    if template::template(context.db, settings.template_id)?.is_none() {
        return Err(DefinitionError::NoTemplate(settings.template_id));
    }
    let other: Option<ScheduleId> = context
        .db
        .prepare_cached("SELECT schedule_id FROM schedules WHERE name = ?1 AND deleted_at IS NULL")?
        .query_row([&settings.name], |row| row.get(0))
        .optional()?;
    if other.is_some() && other != own {
        return Err(DefinitionError::NameTaken(settings.name.clone()));
    }
    Ok(text)
}

impl Operation for CreateSchedule {
    type Output = Schedule;
    type Error = DefinitionError;

    fn execute(self, context: &mut Context<'_>) -> Result<Schedule, DefinitionError> {
        let settings = &self.settings;
        let overrides = check(context, settings, None)?;
        let schedule_id = ScheduleId(context.id(self.now)?);
        let zone = settings.timezone.as_deref();
        let timing = context.timings.read(schedule_id, &settings.cron_expression, zone)?;
        context
            .db
            .prepare_cached(
                "INSERT INTO schedules (schedule_id, template_id, name, cron_expression, timezone, \
                 enabled, param_overrides, next_trigger_at, created_at, updated_at, decision_hash) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10)",
            )?
            .execute(params![
                schedule_id,
                settings.template_id,
                settings.name,
                settings.cron_expression,
                timing.placement().zone().name(),
                settings.enabled,
                overrides,
                next_trigger(&timing, settings.enabled, self.now),
                self.now,
                timing.decision_hash().to_string(),
            ])?;
        context.announce(Change::Schedule { schedule_id });
        schedule(context.db, schedule_id)?.ok_or(DefinitionError::NoSchedule(schedule_id))
    }
}

impl Operation for UpdateSchedule {
    type Output = Schedule;
    type Error = DefinitionError;

    fn execute(self, context: &mut Context<'_>) -> Result<Schedule, DefinitionError> {
        let (schedule_id, settings) = (self.schedule_id, &self.settings);
        let old =
            schedule(context.db, schedule_id)?.ok_or(DefinitionError::NoSchedule(schedule_id))?;
        let overrides = check(context, settings, Some(schedule_id))?;
        // What cannot be read any more, for want of its zone, is mended by saying something else.
        let before =
            context.timings.read(schedule_id, &old.cron_expression, Some(&old.timezone)).ok();
        let zone = settings.timezone.as_deref();
        let timing = context.timings.read(schedule_id, &settings.cron_expression, zone)?;
        let now = self.now.second();
        let redefined =
            before.as_ref().is_none_or(|before| before.decision_hash() != timing.decision_hash());
        let was_active =
            old.enabled && before.as_ref().is_some_and(|before| !before.policy.suspend);
        let is_active = settings.enabled && !timing.policy.suspend;
        let effective_from = if redefined { Some(now) } else { old.effective_from };
        let resumed_at = if is_active && !was_active { Some(now) } else { old.resumed_at };
        // A period that is due and not yet judged stays due when nothing about it has changed.
        let next = if redefined || was_active != is_active {
            next_trigger(&timing, settings.enabled, self.now)
        } else {
            old.next_trigger_at
        };
        context
            .db
            .prepare_cached(
                "UPDATE schedules SET template_id = ?2, name = ?3, cron_expression = ?4, \
                 timezone = ?5, enabled = ?6, param_overrides = ?7, next_trigger_at = ?8, \
                 updated_at = ?9, decision_hash = ?10, effective_from = ?11, resumed_at = ?12 \
                 WHERE schedule_id = ?1",
            )?
            .execute(params![
                schedule_id,
                settings.template_id,
                settings.name,
                settings.cron_expression,
                timing.placement().zone().name(),
                settings.enabled,
                overrides,
                next,
                self.now,
                timing.decision_hash().to_string(),
                effective_from.map(|second| second.to_string()),
                resumed_at.map(|second| second.to_string()),
            ])?;
        context.announce(Change::Schedule { schedule_id });
        schedule(context.db, schedule_id)?.ok_or(DefinitionError::NoSchedule(schedule_id))
    }
}

impl Operation for DeleteSchedule {
    type Output = ();
    type Error = DefinitionError;

    fn execute(self, context: &mut Context<'_>) -> Result<(), DefinitionError> {
        let schedule_id = self.schedule_id;
        let deleted = context
            .db
            .prepare_cached(
                "UPDATE schedules SET deleted_at = ?2, next_trigger_at = NULL \
                 WHERE schedule_id = ?1 AND deleted_at IS NULL",
            )?
            .execute(params![schedule_id, self.now])?;
        if deleted == 0 {
            return Err(DefinitionError::NoSchedule(schedule_id));
        }
        context.timings.forget(schedule_id);
        context.announce(Change::Schedule { schedule_id });
        Ok(())
    }
}

/// What [`from_row`] reads, in its order.
pub(crate) const SCHEDULE_COLUMNS: &str = "schedule_id, template_id, name, cron_expression, \
    timezone, enabled, param_overrides, last_triggered_at, next_trigger_at, created_at, \
    updated_at, last_handled_period, effective_from, resumed_at";

pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<Schedule> {
    let mut columns = Columns { row, next: 0 };
    Ok(Schedule {
        schedule_id: columns.take()?,
        template_id: columns.take()?,
        name: columns.take()?,
        cron_expression: columns.take()?,
        timezone: columns.take()?,
        enabled: columns.take()?,
        param_overrides: columns.json_or_none()?,
        last_triggered_at: columns.take()?,
        next_trigger_at: columns.take()?,
        created_at: columns.take()?,
        updated_at: columns.take()?,
        last_handled_period: columns.second()?,
        effective_from: columns.second()?,
        resumed_at: columns.second()?,
    })
}

pub(crate) fn schedule(db: &Connection, id: ScheduleId) -> Result<Option<Schedule>, StoreError> {
    let sql = format!(
        "SELECT {SCHEDULE_COLUMNS} FROM schedules WHERE schedule_id = ?1 AND deleted_at IS NULL"
    );
    Ok(db.prepare_cached(&sql)?.query_row([id], from_row).optional()?)
}

impl Queue {
    /// A schedule.
    ///
    /// # Errors
    /// When the database fails.
    pub fn schedule(&self, id: ScheduleId) -> Result<Option<Schedule>, StoreError> {
        self.read(|db| schedule(db, id))
    }

    /// What is decided about a schedule's next periods, as far as it is enabled then.
    ///
    /// # Errors
    /// When there is no such schedule, its expression cannot be read any more, or the database
    /// fails.
    pub fn upcoming(
        &self,
        id: ScheduleId,
        after: Timestamp,
        count_max: usize,
    ) -> Result<Vec<Upcoming>, DefinitionError> {
        let schedule = self.schedule(id)?.ok_or(DefinitionError::NoSchedule(id))?;
        let zone = Some(schedule.timezone.as_str());
        let timing = Timings::default().read(id, &schedule.cron_expression, zone)?;
        let due = timing.due_after(after.second()).take(count_max.clamp(1, UPCOMING_MAX));
        let upcoming = due.map(|decision| Upcoming {
            period_id: decision.period_id(),
            nominal_time: decision.nominal,
            window_start: decision.window_start,
            window_end: decision.window_end,
            chosen_time: decision.chosen,
        });
        Ok(upcoming.collect())
    }

    /// Schedules after `after`, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn schedules(
        &self,
        after: Option<ScheduleId>,
        rows_max: usize,
    ) -> Result<Vec<Schedule>, StoreError> {
        self.read(|db| {
            let sql = format!(
                "SELECT {SCHEDULE_COLUMNS} FROM schedules WHERE deleted_at IS NULL \
                 AND schedule_id > ?1 ORDER BY schedule_id LIMIT ?2"
            );
            let after = after.map(|id| id.to_string()).unwrap_or_default();
            let mut statement = db.prepare_cached(&sql)?;
            let limit = rows_max.clamp(1, PAGE_ROWS_MAX) as i64;
            let rows = statement.query_map(params![after, limit], from_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}
