//! CustomResourceDefinitions as objects, and the resources that follow from one.

use std::sync::Arc;

use jiff::Timestamp;
use machinery::apply::{self, FieldSet, Schema as MergeSchema, TypeRef};
use machinery::cel::{self, CompiledRules};
use machinery::field::{FieldError, Path};
use machinery::gvk::{GroupVersionKind, join_api_version};
use machinery::meta;
use machinery::patch::StrategicType;
use machinery::schema::{Checks, CompiledSchema, Schema, crd};
use machinery::table::{Column, custom_columns};
use serde_json::{Value, json};

use super::conversion::{CustomConversion, Versions};
use super::strategy::{CustomStrategy, check_embedded_meta, deprecation};
use crate::kind::{Decoded, Findings, Grace, KindInfo, Part, ScalePaths, Strategy, WriteContext};
use crate::registry::compare_versions;
use crate::resource::{CustomTraits, Resource};

/// The strategy of CustomResourceDefinitions: a built-in kind with additional validation.
pub(crate) struct DefinitionStrategy(pub(crate) Arc<dyn Strategy>);

fn checks() -> Checks<'static> {
    Checks {
        rules: &|schema: &Schema, path: &Path| cel::check_rules(schema, path),
        default_rules: &|schema: &Schema, value: &Value, path: &Path| -> Vec<FieldError> {
            CompiledRules::compile(schema)
                .validate(path, value, None)
                .errors
        },
        object_meta: &check_embedded_meta,
    }
}

impl Strategy for DefinitionStrategy {
    fn decode(&self, raw: Value) -> Result<Decoded, String> {
        self.0.decode(raw)
    }

    fn decode_applied(&self, merged: Value) -> Result<Value, String> {
        self.0.decode_applied(merged)
    }

    fn default(&self, object: &mut Value) {
        crd::default_crd(object);
    }

    fn prepare_create(&self, object: &mut Value, _context: WriteContext<'_>) {
        crd::prepare_create(object);
    }

    fn prepare_update(
        &self,
        new: &mut Value,
        old: &Value,
        part: Part<'_>,
        context: WriteContext<'_>,
    ) {
        if part == Part::Main {
            crd::prepare_update(new, old);
        } else {
            self.0.prepare_update(new, old, part, context);
        }
    }

    fn new_generation(&self, new: &Value, old: &Value, part: Part<'_>) -> bool {
        self.0.new_generation(new, old, part)
    }

    fn validate_create(&self, object: &Value) -> Findings {
        Findings {
            errors: crd::validate_crd(object, &checks()).into(),
            warnings: crd::crd_warnings(object, None),
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part<'_>) -> Findings {
        if part == Part::Status {
            return Findings {
                errors: crd::validate_crd_status_update(new).into(),
                ..Findings::default()
            };
        }
        Findings {
            errors: crd::validate_crd_update(new, old, &checks()).into(),
            warnings: crd::crd_warnings(new, Some(old)),
        }
    }

    /// The name is derived from the names in the spec and validated with them.
    fn validate_name(&self, _name: &str, _prefix: bool) -> Vec<String> {
        Vec::new()
    }

    fn merge_type(&self) -> (Arc<MergeSchema>, TypeRef) {
        self.0.merge_type()
    }

    fn reset_fields(&self, part: Part<'_>) -> FieldSet {
        self.0.reset_fields(part)
    }

    fn strategic(&self) -> Option<&dyn StrategicType> {
        self.0.strategic()
    }

    fn selectable(&self, object: &Value, field: &str) -> Option<String> {
        self.0.selectable(object, field)
    }

    fn is_selectable(&self, field: &str) -> bool {
        self.0.is_selectable(field)
    }

    fn columns(&self) -> Vec<Column> {
        self.0.columns()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.0.cells(object, now)
    }

    fn grace(&self, object: &Value, requested: Option<i64>) -> Grace {
        self.0.grace(object, requested)
    }
}

/// The resources of a CRD, one for each served version; none until it is established.
pub(crate) fn resources_of(definition: &Value) -> Vec<Arc<Resource>> {
    // Until then the names may still belong to another CRD, and serving them would replace its
    // resources.
    let established = crd::is_condition_true(definition, "Established");
    if !established {
        return Vec::new();
    }
    let shared = Arc::new(definition.clone());
    let spec = &definition["spec"];
    let group = spec["group"].as_str().unwrap_or_default();
    let names = &definition["status"]["acceptedNames"];
    let kind = names["kind"].as_str().unwrap_or_default();
    let versions: Vec<&Value> = spec["versions"].as_array().into_iter().flatten().collect();
    let mut all = Vec::new();
    let mut storage = String::new();
    for version in &versions {
        let name = version["name"].as_str().unwrap_or_default();
        let api_version = join_api_version(group, name);
        if version["storage"] == true {
            storage.clone_from(&api_version);
        }
        // Versions that are no longer served as well: stored objects may be in any of them, and
        // conversion has to read them.
        match strategy_of(spec, version) {
            Ok(strategy) => all.push((api_version, Arc::new(strategy))),
            Err(error) => {
                tracing::warn!(definition = meta::name(definition), %error, "a CRD version is not served");
            }
        }
    }
    let versions_of = Arc::new(Versions { storage, all });
    let single = versions_of.all.len() == 1;
    let newest = newest_served(&versions);
    let mut resources = Vec::new();
    for version in versions.iter().filter(|version| version["served"] == true) {
        let name = version["name"].as_str().unwrap_or_default();
        let api_version = join_api_version(group, name);
        let Some((_, strategy)) = versions_of
            .all
            .iter()
            .find(|(name, _)| *name == api_version)
        else {
            continue;
        };
        let newer = newest
            .filter(|newest| compare_versions(newest, name).is_lt())
            .map(|newest| join_api_version(group, newest));
        // With one version and no defaults the stored bytes are what is served, whenever they were
        // written.
        let verbatim = single && !strategy.schema.schema().has_defaults;
        resources.push(Arc::new(Resource {
            info: info(
                spec,
                names,
                version,
                GroupVersionKind::new(group, name, kind),
                deprecation(version, &api_version, kind, newer.as_deref()),
            ),
            strategy: Arc::clone(strategy) as Arc<dyn Strategy>,
            conversion: Arc::new(CustomConversion::new(
                api_version.clone(),
                Arc::clone(&versions_of),
                verbatim,
            )),
            prefix: format!(
                "/registry/{group}/{}/",
                names["plural"].as_str().unwrap_or_default()
            ),
            custom: Some(CustomTraits {
                terminating: crd::is_condition_true(definition, "Terminating"),
                definition: Arc::clone(&shared),
            }),
        }));
    }
    resources
}

/// The best served version that is not deprecated.
fn newest_served<'a>(versions: &[&'a Value]) -> Option<&'a str> {
    let mut names: Vec<&str> = versions
        .iter()
        .filter(|version| version["served"] == true && version["deprecated"] != true)
        .filter_map(|version| version["name"].as_str())
        .collect();
    names.sort_by(|a, b| compare_versions(a, b));
    names.first().copied()
}

fn strategy_of(spec: &Value, version: &Value) -> Result<CustomStrategy, String> {
    let json = version
        .pointer("/schema/openAPIV3Schema")
        .cloned()
        .unwrap_or_else(|| json!({"type": "object"}));
    let schema = CompiledSchema::parse(&json)?;
    let preserve_unknown = spec["preserveUnknownFields"] == true;
    let merge = apply::crd_schema(schema.schema(), preserve_unknown);
    let columns = version
        .get("additionalPrinterColumns")
        .and_then(Value::as_array);
    let columns =
        custom_columns(columns.map_or(&[], Vec::as_slice)).map_err(|error| error.to_string())?;
    let selectable = version
        .get("selectableFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|field| field["jsonPath"].as_str())
        .map(str::to_owned)
        .collect();
    Ok(CustomStrategy {
        rules: CompiledRules::compile(schema.schema()),
        merge,
        columns,
        selectable,
        has_status: version.pointer("/subresources/status").is_some(),
        scale: scale_paths(version),
        preserve_unknown,
        schema,
    })
}

fn scale_paths(version: &Value) -> Option<ScalePaths> {
    let scale = version.pointer("/subresources/scale")?;
    let text = |field: &str| scale[field].as_str().unwrap_or_default().to_owned();
    Some(ScalePaths {
        spec_replicas: text("specReplicasPath"),
        status_replicas: text("statusReplicasPath"),
        label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
    })
}

fn info(
    spec: &Value,
    names: &Value,
    version: &Value,
    gvk: GroupVersionKind,
    deprecation: Option<String>,
) -> KindInfo {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(text).collect()
    };
    KindInfo {
        gvk,
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        list_kind: text(&names["listKind"]),
        short_names: list(&names["shortNames"]),
        categories: list(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        has_generation: true,
        has_status: version.pointer("/subresources/status").is_some(),
        scale: scale_paths(version),
        deprecation,
        create_on_update: false,
        // A PUT needs the resourceVersion it was based on (`AllowUnconditionalUpdate` in
        // `customresource/strategy.go`), unlike those of most built-in kinds.
        unconditional_update: false,
        delete_returns_object: false,
    }
}
