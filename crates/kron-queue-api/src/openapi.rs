//! The document that describes the API: one table of operations, and the bodies they take.
//!
//! Whatever is enforced is written here from the same constants by which it is enforced. Every
//! answer that can occur is there with its schema; the fuzzer in `tests/schemathesis` holds the
//! handlers to it.

mod bodies;
mod operations;
mod parts;

use kron_queue::{
    Artifact, Delivery, DeliveryAttempt, DeliveryRecord, DeliveryStatus, Group, GroupId,
    GroupMember, GroupMode, GroupStatus, Job, JobId, JobRun, JobState, JobStatus, OnFailure, Pause,
    PeriodOutcome, PeriodRecord, ProcessIdentity, Reservation, ReservationId, ReservationStatus,
    RetryDecision, RunId, RunStatus, Schedule, ScheduleId, Statistics, Template, TemplateId,
    Timestamp, TypeStatistics, Upcoming,
};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, Info, OpenApi, OpenApiBuilder, PathsBuilder, SecurityRequirement,
};

use crate::handlers::groups::{CancelledGroupView, GroupView, NewGroupView};
use crate::handlers::jobs::{BatchView, EnqueuedView};
use crate::handlers::queue::{DoneView, PausesView, QueueView};
use crate::handlers::runs::{Progress, RunView};
use crate::problem::ProblemView;
use crate::surface::{DirectAnswer, HandlerView};
use kron_queue::DeliveryId;

/// The name of the bearer scheme.
const BEARER: &str = "bearer";

/// The document of the whole API, with the prefix in its paths.
#[must_use]
pub fn openapi() -> OpenApi {
    let paths = operations::all()
        .into_iter()
        .fold(PathsBuilder::new(), |paths, operation| paths.path(operation.path, operation.item));
    let mut info = Info::new("Kron queue", env!("CARGO_PKG_VERSION"));
    info.description = Some(
        "A durable job queue: what is answered with success is on the disk. Lists are paged by \
         cursors: a page may be short, or even empty, and only one whose `next` is null is the \
         last. Bodies with unknown fields or doubled keys are refused."
            .to_owned(),
    );
    OpenApiBuilder::new()
        .info(info)
        .paths(paths.build())
        .components(Some(components()))
        .security(Some([SecurityRequirement::new(BEARER, Vec::<String>::new())]))
        .build()
}

macro_rules! schemas {
    ($builder:expr, $($name:ident),* $(,)?) => {
        $builder$(.schema_from::<$name>())*
    };
}

fn components() -> utoipa::openapi::Components {
    let builder = schemas!(
        ComponentsBuilder::new(),
        Artifact,
        BatchView,
        CancelledGroupView,
        Delivery,
        DeliveryAttempt,
        DeliveryId,
        DeliveryRecord,
        DeliveryStatus,
        DirectAnswer,
        DoneView,
        EnqueuedView,
        Group,
        GroupId,
        GroupMember,
        GroupMode,
        GroupStatus,
        GroupView,
        HandlerView,
        Job,
        JobId,
        JobRun,
        JobState,
        JobStatus,
        NewGroupView,
        OnFailure,
        Pause,
        PausesView,
        PeriodOutcome,
        PeriodRecord,
        ProblemView,
        ProcessIdentity,
        Progress,
        QueueView,
        Reservation,
        ReservationId,
        ReservationStatus,
        RetryDecision,
        RunId,
        RunStatus,
        RunView,
        Schedule,
        ScheduleId,
        Statistics,
        Template,
        TemplateId,
        Timestamp,
        TypeStatistics,
        Upcoming,
    );
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("needed over TCP; on the unix socket the kernel says who asks"))
        .build();
    bodies::all()
        .into_iter()
        .fold(builder, |builder, (name, schema)| builder.schema(name, schema))
        .security_scheme(BEARER, SecurityScheme::Http(bearer))
        .build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_is_documented_and_every_reference_leads_somewhere() {
        let document = serde_json::to_value(openapi()).unwrap();
        let documented: BTreeSet<String> =
            document["paths"].as_object().unwrap().keys().cloned().collect();
        let routed = crate::routes().into_iter().map(|(path, _)| path.replace("{*", "{"));
        let routed = routed.chain(["/events".to_owned(), "/openapi.json".to_owned()]);
        let routed: BTreeSet<String> =
            routed.map(|path| format!("{}{path}", crate::PREFIX)).collect();
        assert_eq!(documented, routed);
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }

    #[test]
    fn the_documented_fields_are_those_that_are_taken() {
        use crate::bodies as taken;
        let document = serde_json::to_value(openapi()).unwrap();
        let rows: [(&str, &[&str]); 12] = [
            ("NewJob", &taken::NEW_JOB),
            ("GroupJob", &taken::GROUP_JOB),
            ("NewJobs", &taken::BATCH),
            ("JobPatch", &taken::JOB_PATCH),
            ("NewTemplate", &taken::TEMPLATE),
            ("TemplatePatch", &taken::TEMPLATE),
            ("NewSchedule", &taken::SCHEDULE),
            ("SchedulePatch", &taken::SCHEDULE),
            ("NewGroup", &taken::GROUP),
            ("Direct", &taken::DIRECT),
            ("NewPause", &taken::PAUSE),
            ("Resume", &taken::RESUME),
        ];
        for (name, fields) in rows {
            let schema = &document["components"]["schemas"][name];
            let schema = schema.get("anyOf").map_or(schema, |ways| &ways[0]);
            let documented: BTreeSet<&str> =
                schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(documented, fields.iter().copied().collect(), "{name}");
            assert_eq!(schema["additionalProperties"], false, "{name}");
        }
    }
}
