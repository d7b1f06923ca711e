//! The indexed policy agrees with a scan of all bindings.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

const NAMES: [&str; 3] = ["a", "b", "c"];
const VERBS: [&str; 3] = ["get", "list", "*"];
const GROUPS: [&str; 3] = ["", "apps", "*"];
const RESOURCES: [&str; 5] = ["pods", "pods/log", "*/log", "deployments", "*"];
const NAMESPACES: [&str; 2] = ["x", "y"];
const URLS: [&str; 4] = ["/", "/api", "/api/*", "*"];

#[derive(Debug, Clone)]
enum Change {
    Put(Kind, Value),
    Remove(Kind, Value),
}

fn owned(texts: Vec<&'static str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

fn some(of: &'static [&'static str], least: usize) -> impl Strategy<Value = Vec<String>> {
    subsequence(of, least..=of.len()).prop_map(owned)
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let resources = (
        some(&VERBS, 1),
        some(&GROUPS, 1),
        some(&RESOURCES, 1),
        some(&NAMES, 0),
    )
        .prop_map(|(verbs, groups, resources, names)| Rule {
            verbs,
            groups,
            resources,
            names,
            urls: Vec::new(),
        });
    let paths = (some(&VERBS, 1), some(&URLS, 1)).prop_map(|(verbs, urls)| Rule {
        verbs,
        urls,
        ..Rule::default()
    });
    prop_oneof![resources, paths]
}

fn any_subject() -> impl Strategy<Value = Value> {
    (
        select(vec!["User", "Group", "ServiceAccount"]),
        select(NAMES.to_vec()),
        select(vec!["", "x", "y"]),
    )
        .prop_map(|(kind, name, namespace)| match kind {
            "ServiceAccount" => json!({"kind": kind, "name": name, "namespace": namespace}),
            _ => json!({"kind": kind, "name": name}),
        })
}

fn any_object() -> impl Strategy<Value = (Kind, Value)> {
    (
        select(Kind::ALL.to_vec()),
        select(NAMES.to_vec()),
        select(NAMESPACES.to_vec()),
        prop::collection::vec(any_rule(), 0..3),
        prop::collection::vec(any_subject(), 0..3),
        select(vec!["Role", "ClusterRole"]),
        select(NAMES.to_vec()),
    )
        .prop_map(
            |(kind, name, namespace, rules, subjects, role_kind, role)| {
                let clustered = matches!(kind, Kind::ClusterRole | Kind::ClusterRoleBinding);
                let namespace = if clustered { "" } else { namespace };
                let role_kind = if clustered { "ClusterRole" } else { role_kind };
                let object = json!({
                    "metadata": {"name": name, "namespace": namespace},
                    "rules": rules.iter().map(Rule::write).collect::<Vec<_>>(),
                    "roleRef": {"kind": role_kind, "name": role},
                    "subjects": subjects,
                });
                (kind, object)
            },
        )
}

fn any_change() -> impl Strategy<Value = Change> {
    (any_object(), prop::bool::weighted(0.3)).prop_map(|((kind, object), remove)| {
        if remove {
            Change::Remove(kind, object)
        } else {
            Change::Put(kind, object)
        }
    })
}

/// All objects in a plain list.
#[derive(Default)]
struct Model(Vec<(Kind, Value)>);

impl Model {
    fn apply(&mut self, change: &Change) {
        let (Change::Put(kind, object) | Change::Remove(kind, object)) = change;
        self.0
            .retain(|(known, other)| known != kind || other["metadata"] != object["metadata"]);
        if matches!(change, Change::Put(..)) {
            self.0.push((*kind, object.clone()));
        }
    }

    fn allows(&self, user: &UserInfo, attributes: &Attributes<'_>) -> bool {
        self.0.iter().any(|(kind, binding)| {
            let namespace = binding["metadata"]["namespace"].as_str().unwrap();
            let here = match kind {
                Kind::ClusterRoleBinding => true,
                Kind::RoleBinding => namespace == attributes.namespace(),
                _ => return false,
            };
            let subjects = binding["subjects"].as_array().unwrap();
            here && subjects.iter().any(|subject| is(user, subject, namespace))
                && self.role(binding, namespace).is_some_and(|role| {
                    Rule::read_all(role)
                        .iter()
                        .any(|rule| rule.allows(attributes))
                })
        })
    }

    fn role(&self, binding: &Value, namespace: &str) -> Option<&Value> {
        let (wanted, namespace) = match binding["roleRef"]["kind"].as_str()? {
            "Role" => (Kind::Role, namespace),
            _ => (Kind::ClusterRole, ""),
        };
        let found = self.0.iter().find(|(kind, role)| {
            *kind == wanted
                && role["metadata"]["name"] == binding["roleRef"]["name"]
                && role["metadata"]["namespace"] == namespace
        });
        found.map(|(_, role)| role)
    }
}

fn is(user: &UserInfo, subject: &Value, binding_namespace: &str) -> bool {
    let name = subject["name"].as_str().unwrap();
    match subject["kind"].as_str().unwrap() {
        "User" => user.name == name,
        "Group" => user.is_in(name),
        _ => {
            let namespace = match subject["namespace"].as_str().unwrap() {
                "" => binding_namespace,
                namespace => namespace,
            };
            !namespace.is_empty()
                && user.name == format!("system:serviceaccount:{namespace}:{name}")
        }
    }
}

fn any_user() -> impl Strategy<Value = UserInfo> {
    let names = vec![
        "a",
        "b",
        "system:serviceaccount:x:a",
        "system:serviceaccount:y:b",
    ];
    (select(names), subsequence(NAMES.to_vec(), 0..=3))
        .prop_map(|(name, groups)| UserInfo::known(name, &groups))
}

fn any_attributes() -> impl Strategy<Value = Attributes<'static>> {
    let verb = select(vec!["get", "list", "create"]);
    let resource = (
        select(vec!["", "apps"]),
        select(vec!["pods", "deployments"]),
        select(vec!["", "log", "scale"]),
        select(vec!["", "x", "y"]),
        select(vec!["", "a", "b"]),
    )
        .prop_map(|(group, resource, subresource, namespace, name)| {
            Target::Resource(Resource {
                group,
                plural: resource,
                subresource,
                namespace,
                name,
            })
        });
    let path =
        select(vec!["/", "/api", "/api/v1", "/apis"]).prop_map(|path| Target::Path(path.into()));
    (verb, prop_oneof![3 => resource, 1 => path]).prop_map(|(verb, target)| Attributes {
        verb: verb.into(),
        target,
    })
}

proptest! {
    #[test]
    fn the_index_decides_as_the_model(
        changes in prop::collection::vec(any_change(), 0..40),
        questions in prop::collection::vec((any_user(), any_attributes()), 1..20),
    ) {
        let (mut policy, mut model) = (Policy::default(), Model::default());
        for change in &changes {
            match change {
                Change::Put(kind, object) => policy.put(*kind, object),
                Change::Remove(kind, object) => policy.remove(*kind, object),
            }
            model.apply(change);
        }
        for (user, attributes) in &questions {
            let decision = policy.decide(user, attributes);
            prop_assert_eq!(decision.allowed, model.allows(user, attributes), "{:?}", decision);
        }
    }

    /// Users whose rules cover others are allowed whatever those allow.
    #[test]
    fn covered_rules_are_allowed(
        held in prop::collection::vec(any_rule(), 0..4),
        wanted in prop::collection::vec(any_rule(), 0..3),
        asked in any_attributes(),
    ) {
        let any = |rules: &[Rule]| rules.iter().any(|rule| rule.allows(&asked));
        if uncovered(&held, &wanted).is_empty() && any(&wanted) {
            prop_assert!(any(&held));
        }
    }
}
