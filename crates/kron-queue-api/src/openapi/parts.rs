//! Schemas of single fields, from the constants by which they are checked.

use kron_queue::limits::{JOB_TYPE_BYTES_MAX, PRIORITY_MAX};
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, SchemaType, Type,
};
use utoipa::openapi::{KnownFormat, Ref, RefOr, Schema, SchemaFormat};

pub(super) type Part = RefOr<Schema>;

/// What `kron_queue` takes as a type.
pub(super) const JOB_TYPE_PATTERN: &str = "^[A-Za-z0-9_.-]+$";
/// Texts without control characters.
pub(super) const TEXT_PATTERN: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";

/// Whether a field may be null.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Null {
    Refused,
    Allowed,
}

fn kind(kind: Type, null: Null) -> SchemaType {
    match null {
        Null::Refused => SchemaType::Type(kind),
        Null::Allowed => SchemaType::Array(vec![kind, Type::Null]),
    }
}

fn part(object: ObjectBuilder) -> Part {
    RefOr::T(Schema::Object(object.build()))
}

pub(super) fn reference(name: &str) -> Part {
    RefOr::Ref(Ref::from_schema_name(name))
}

pub(super) fn text(pattern: Option<&str>, bytes_max: usize, null: Null) -> Part {
    let object = ObjectBuilder::new().schema_type(kind(Type::String, null));
    let object = object.min_length(Some(1)).max_length(Some(bytes_max));
    let object = object.description(Some(format!("at most {bytes_max} bytes of UTF-8")));
    part(object.pattern(pattern))
}

pub(super) fn job_type(null: Null) -> Part {
    text(Some(JOB_TYPE_PATTERN), JOB_TYPE_BYTES_MAX, null)
}

pub(super) fn number(from: i64, to: i64, null: Null) -> Part {
    let object = ObjectBuilder::new().schema_type(kind(Type::Integer, null));
    let object = object.format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)));
    part(object.minimum(Some(from)).maximum(Some(to)))
}

pub(super) fn priority(null: Null) -> Part {
    number(-PRIORITY_MAX, PRIORITY_MAX, null)
}

pub(super) fn boolean() -> Part {
    part(ObjectBuilder::new().schema_type(Type::Boolean))
}

pub(super) fn id(null: Null) -> Part {
    let object = ObjectBuilder::new().schema_type(kind(Type::String, null));
    part(object.format(Some(SchemaFormat::Custom("uuid".to_owned()))))
}

pub(super) fn time(null: Null) -> Part {
    let object = ObjectBuilder::new().schema_type(kind(Type::String, null));
    part(object.format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))))
}

pub(super) fn params(null: Null) -> Part {
    part(ObjectBuilder::new().schema_type(kind(Type::Object, null)))
}

pub(super) fn word(words: &[&str]) -> Part {
    let object = ObjectBuilder::new().schema_type(Type::String);
    part(object.enum_values(Some(words.iter().copied())))
}

pub(super) fn list(of: Part, items_max: usize) -> Part {
    let list = ArrayBuilder::new().items(of).min_items(Some(1)).max_items(Some(items_max));
    RefOr::T(Schema::Array(list.build()))
}

/// Whether a field must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Must,
    May,
}

/// An object with exactly these fields.
pub(super) fn object<const N: usize>(fields: [(&str, Part, Need); N]) -> Part {
    let closed = AdditionalProperties::FreeForm(false);
    let start = ObjectBuilder::new().schema_type(Type::Object).additional_properties(Some(closed));
    let object = fields.into_iter().fold(start, |object, (name, schema, need)| {
        let object = object.property(name, schema);
        if need == Need::Must { object.required(name) } else { object }
    });
    part(object)
}

/// A page of rows.
pub(super) fn page(of: &str) -> Part {
    let items = ArrayBuilder::new().items(reference(of)).build();
    let next = ObjectBuilder::new().schema_type(kind(Type::String, Null::Allowed));
    let next = next.description(Some("the cursor of the next page; null at the end"));
    let object = ObjectBuilder::new().schema_type(Type::Object);
    let object = object.property("items", RefOr::T(Schema::Array(items))).required("items");
    part(object.property("next", part(next)).required("next"))
}

pub(super) fn bytes() -> Part {
    part(ObjectBuilder::new().schema_type(Type::String))
}

pub(super) fn free() -> Part {
    part(ObjectBuilder::new().schema_type(Type::Object))
}
