//! Privilege escalation prevention (`pkg/registry/rbac`): writing a role requires its rules or the
//! verb `escalate`, writing a binding the rules of its role or the verb `bind`.

use machinery::json::go_quote;
use machinery::meta;
use machinery::status::Status;
use serde_json::Value;

use super::MASTERS;
use super::attributes::{Attributes, Resource as Target};
use super::rbac::{
    Kind, NoSuchRole, Policy, RoleRef, Rule, aggregate, compact, describe, quoted, uncovered,
};
use crate::resource::Resource;
use crate::rest::Context;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Checks a role or binding to be written; `live` is its current state. Other kinds pass.
pub(crate) fn confirm_no_escalation(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    live: Option<&Value>,
    object: &Value,
) -> Result<(), Status> {
    if resource.info.gvk.group != GROUP || resource.custom.is_some() {
        return Ok(());
    }
    let Some(kind) = Kind::of_plural(&resource.info.plural) else {
        return Ok(());
    };
    // The garbage collector removes finalizers and owner references of roles whose rules it does
    // not hold (`IsOnlyMutatingGCFields` in `pkg/registry/rbac/helpers.go`).
    if context.user.is_in(MASTERS) || live.is_some_and(|live| only_for_collector(object, live)) {
        return Ok(());
    }
    match kind {
        Kind::Role | Kind::ClusterRole => role(context, resource, namespace, live, object),
        Kind::RoleBinding | Kind::ClusterRoleBinding => {
            binding(context, resource, namespace, object)
        }
    }
}

/// Whether only fields change that garbage collection changes.
fn only_for_collector(object: &Value, live: &Value) -> bool {
    let rest = |object: &Value| {
        let mut rest = object.clone();
        for field in ["ownerReferences", "finalizers", "managedFields", "selfLink"] {
            meta::remove(&mut rest, field);
        }
        rest
    };
    rest(object) == rest(live)
}

fn role(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    live: Option<&Value>,
    object: &Value,
) -> Result<(), Status> {
    let authorizer = &context.state.authorizer;
    // The name of the request, which a creation does not have.
    let name = context
        .info
        .resource
        .as_ref()
        .map_or("", |path| path.name.as_str());
    let target = Target {
        group: GROUP,
        plural: &resource.info.plural,
        namespace,
        name,
        ..Target::default()
    };
    if authorizer
        .authorize(&context.user, &Attributes::on("escalate", target))
        .allowed
    {
        return Ok(());
    }
    let gathers = |role: &Value| {
        let selectors = role.pointer("/aggregationRule/clusterRoleSelectors");
        selectors
            .and_then(Value::as_array)
            .is_some_and(|selectors| !selectors.is_empty())
    };
    authorizer.with_policy(|policy| {
        held(
            context,
            resource,
            policy,
            namespace,
            &Rule::read_all(object),
            object,
        )?;
        if gathers(object) || live.is_some_and(gathers) {
            // An aggregated role can get any rules.
            let (rules, _) = policy.rules_for(&context.user, namespace);
            if !uncovered(&rules, &everything()).is_empty() {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(refuse(resource, object, why));
            }
        }
        Ok(())
    })
}

fn binding(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    object: &Value,
) -> Result<(), Status> {
    let authorizer = &context.state.authorizer;
    let given = RoleRef::read(object);
    let plural = match given.kind.as_str() {
        "Role" => "roles",
        "ClusterRole" => "clusterroles",
        _ => "",
    };
    let target = Target {
        group: object["roleRef"]["apiGroup"].as_str().unwrap_or_default(),
        plural,
        namespace,
        name: &given.name,
        ..Target::default()
    };
    let bind = Attributes::on("bind", target);
    if !plural.is_empty() && authorizer.authorize(&context.user, &bind).allowed {
        return Ok(());
    }
    authorizer.with_policy(|policy| {
        let rules = policy
            .rules_of(&given, namespace)
            .map_err(|error| no_such_role(&error, resource))?;
        held(context, resource, policy, namespace, rules, object)
    })
}

/// Whether the user has all of these rules.
fn held(
    context: &Context,
    resource: &Resource,
    policy: &Policy,
    namespace: &str,
    wanted: &[Rule],
    object: &Value,
) -> Result<(), Status> {
    let user = &context.user;
    let (rules, missing) = policy.rules_for(user, namespace);
    let lacking = uncovered(&rules, wanted);
    if lacking.is_empty() {
        return Ok(());
    }
    let mut why = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        go_quote(&user.name),
        quoted(&user.groups),
        describe(&compact(&lacking))
    );
    if !missing.is_empty() {
        let written = resource.group_resource();
        let texts: Vec<String> = missing
            .iter()
            .map(|error| error.during_write_of(&written))
            .collect();
        why = format!("{why}; resolution errors: [{}]", aggregate(&texts));
    }
    Err(refuse(resource, object, &why))
}

fn refuse(resource: &Resource, object: &Value, why: &str) -> Status {
    Status::forbidden(Some(&resource.group_resource()), meta::name(object), why)
}

/// Upstream's storage reports the missing role as a missing object of the written kind.
fn no_such_role(error: &NoSuchRole, resource: &Resource) -> Status {
    let RoleRef { kind, name } = &error.0;
    match kind.as_str() {
        "Role" | "ClusterRole" => resource.not_found(name),
        _ => Status::plain_500(error.during_write_of(&resource.group_resource())),
    }
}

/// All verbs on all resources and paths.
fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule {
            verbs: all(),
            groups: all(),
            resources: all(),
            ..Rule::default()
        },
        Rule {
            verbs: all(),
            urls: all(),
            ..Rule::default()
        },
    ]
}
