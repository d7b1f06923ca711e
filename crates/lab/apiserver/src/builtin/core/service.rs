//! Services.

mod validate;

use serde_json::{Value, json};

use crate::builtin::entry::Capability::{CreateOnUpdate, DeleteReturnsObject, Status};
use crate::builtin::entry::Cell::{Of, Text};
use crate::builtin::entry::{AGE, Column, Entry, NAME, column, selectable_text};
use crate::builtin::value::{Read, fill, fill_empty, items_mut, keep, remove, same, set};
use crate::builtin::{ip, print};
use crate::kind::{Part, WriteContext};

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["svc"],
    categories: &["all"],
    capabilities: &[Status, CreateOnUpdate, DeleteReturnsObject],
    default,
    prepare_create,
    prepare_update,
    validate: validate::create,
    validate_update: validate::update,
    warnings: |service, _| validate::warnings(service),
    // Any DNS label since 1.36; before, it had to start with a letter.
    name: machinery::names::name_is_dns_label,
    selectable: &[
        selectable_text!("spec.clusterIP"),
        selectable_text!("spec.type"),
    ],
    columns: COLUMNS,
    ..Entry::new("", "v1", "Service", "services")
};

/// Whether it is reachable from outside the cluster.
fn is_external(service: &Value) -> bool {
    match service.text("spec.type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => service.count("spec.externalIPs") > 0,
        _ => false,
    }
}

fn needs_cluster_ip(service: &Value) -> bool {
    matches!(
        service.text("spec.type"),
        "ClusterIP" | "NodePort" | "LoadBalancer"
    )
}

fn needs_node_port(service: &Value) -> bool {
    matches!(service.text("spec.type"), "NodePort" | "LoadBalancer")
}

fn needs_health_check(service: &Value) -> bool {
    service.text("spec.type") == "LoadBalancer"
        && service.text("spec.externalTrafficPolicy") == "Local"
}

fn is_headless(service: &Value) -> bool {
    service.texts("spec.clusterIPs") == ["None"]
}

fn default(service: &mut Value) {
    fill_empty(service, "spec.sessionAffinity", "None");
    match service.text("spec.sessionAffinity") {
        "None" => remove(service, "spec.sessionAffinityConfig"),
        "ClientIP" if !service.has("spec.sessionAffinityConfig.clientIP.timeoutSeconds") => {
            let config = json!({ "clientIP": { "timeoutSeconds": 10800 } });
            set(service, "spec.sessionAffinityConfig", config);
        }
        _ => {}
    }
    fill_empty(service, "spec.type", "ClusterIP");
    for port in items_mut(service, "spec.ports") {
        fill_empty(port, "protocol", "TCP");
        let number = port.number("port");
        fill_empty(port, "targetPort", number);
    }
    if is_external(service) {
        fill_empty(service, "spec.externalTrafficPolicy", "Cluster");
    }
    if needs_cluster_ip(service) {
        fill(service, "spec.internalTrafficPolicy", "Cluster");
    }
    if service.text("spec.type") == "LoadBalancer" {
        fill(service, "spec.allocateLoadBalancerNodePorts", true);
        for ingress in items_mut(service, "status.loadBalancer.ingress") {
            if !ingress.text("ip").is_empty() {
                fill(ingress, "ipMode", "VIP");
            }
        }
    }
    fill(service, "status.loadBalancer", json!({}));
}

fn prepare_create(service: &mut Value, _: WriteContext<'_>) {
    set(service, "status", json!({ "loadBalancer": {} }));
    let address = service.text("spec.clusterIP").to_owned();
    if !address.is_empty() && service.count("spec.clusterIPs") == 0 {
        set(service, "spec.clusterIPs", json!([address]));
    }
    choose_families(service);
}

fn prepare_update(new: &mut Value, old: &Value, part: Part<'_>, _: WriteContext<'_>) {
    if part == Part::Status {
        keep(new, old, "spec");
        return;
    }
    keep(new, old, "status");
    // The order of `pkg/registry/core/service/storage/storage.go`: values kept from the old object
    // have to be there before fields of a changed type are dropped and families are chosen.
    patch_allocated(new, old);
    normalize_addresses(new, old);
    drop_what_no_longer_applies(new, old);
    choose_families(new);
}

/// Keeps allocated values when an update omits them.
fn patch_allocated(new: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        if new.text("spec.clusterIP").is_empty() {
            keep(new, old, "spec.clusterIP");
        }
        if new.count("spec.clusterIPs") == 0 && old.count("spec.clusterIPs") > 0 {
            keep(new, old, "spec.clusterIPs");
        }
        if !new.has("spec.ipFamilyPolicy") {
            keep(new, old, "spec.ipFamilyPolicy");
        }
    }
    if needs_node_port(old) && needs_node_port(new) {
        let known = old.items("spec.ports");
        let taken: Vec<i64> = new
            .items("spec.ports")
            .iter()
            .map(|port| port.number("nodePort"))
            .collect();
        for port in items_mut(new, "spec.ports") {
            if port.number("nodePort") != 0 {
                continue;
            }
            let alike = known
                .iter()
                .rev()
                .find(|known| known.text("name") == port.text("name"));
            if let Some(known) = alike.filter(|known| !taken.contains(&known.number("nodePort"))) {
                keep(port, known, "nodePort");
            }
        }
    }
    if needs_health_check(old)
        && needs_health_check(new)
        && new.number("spec.healthCheckNodePort") == 0
    {
        keep(new, old, "spec.healthCheckNodePort");
    }
}

/// Keeps the singular and the plural form of cluster addresses consistent, for clients that know
/// only one.
fn normalize_addresses(new: &mut Value, old: &Value) {
    let (single, was) = (
        new.text("spec.clusterIP").to_owned(),
        old.text("spec.clusterIP"),
    );
    let unchanged = same(new.at("spec.clusterIPs"), old.at("spec.clusterIPs"));
    if single != was && unchanged {
        if single.is_empty() {
            remove(new, "spec.clusterIPs");
        } else {
            set(new, "spec.clusterIPs", json!([single]));
        }
    }
}

/// On a change of type drops fields that only the old type has, unless they were changed as well.
fn drop_what_no_longer_applies(new: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && !needs_cluster_ip(new) {
        for field in ["spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"] {
            if same(new.at(field), old.at(field)) {
                remove(new, field);
                if field == "spec.clusterIPs" {
                    remove(new, "spec.clusterIP");
                }
            }
        }
    }
    if needs_node_port(old) && !needs_node_port(new) {
        let numbers = |service: &Value| -> Vec<i64> {
            service
                .items("spec.ports")
                .iter()
                .map(|port| port.number("nodePort"))
                .collect()
        };
        if numbers(new) == numbers(old) {
            for port in items_mut(new, "spec.ports") {
                remove(port, "nodePort");
            }
        }
    }
    let gone: [(bool, &[&str]); 3] = [
        (
            needs_health_check(old) && !needs_health_check(new),
            &["spec.healthCheckNodePort"],
        ),
        (
            old.text("spec.type") == "LoadBalancer" && new.text("spec.type") != "LoadBalancer",
            &[
                "spec.allocateLoadBalancerNodePorts",
                "spec.loadBalancerClass",
            ],
        ),
        (
            is_external(old) && !is_external(new),
            &["spec.externalTrafficPolicy"],
        ),
    ];
    for field in gone
        .into_iter()
        .filter(|(gone, _)| *gone)
        .flat_map(|(_, fields)| fields)
    {
        if same(new.at(field), old.at(field)) {
            remove(new, field);
        }
    }
    if new.text("spec.type") != "LoadBalancer" {
        set(new, "status.loadBalancer", json!({}));
    }
}

/// The IP families of a service; the cluster has IPv4 only.
fn choose_families(service: &mut Value) {
    if service.text("spec.type") == "ExternalName" {
        return;
    }
    let selectorless =
        service.text("spec.clusterIP") == "None" && service.count("spec.selector") == 0;
    let policy = if selectorless {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    fill(service, "spec.ipFamilyPolicy", policy);
    let mut families: Vec<Value> = service.items("spec.ipFamilies").to_vec();
    for address in service
        .texts("spec.clusterIPs")
        .into_iter()
        .skip(families.len())
    {
        if address != "None" {
            families.push(if ip::is_v6(address) { "IPv6" } else { "IPv4" }.into());
        }
    }
    if families.is_empty() {
        families.push("IPv4".into());
    }
    if selectorless && families.len() == 1 && service.text("spec.ipFamilyPolicy") != "SingleStack" {
        let other = if families[0] == "IPv4" {
            "IPv6"
        } else {
            "IPv4"
        };
        families.push(other.into());
    }
    set(service, "spec.ipFamilies", families);
}

const COLUMNS: &[Column] = &[
    NAME,
    column!("Type" string Text("spec.type") => "How the service can be reached"),
    column!("Cluster-IP" string Of(|service| {
        service.texts("spec.clusterIPs").first().copied().unwrap_or("<none>").into()
    }) => "Address inside the cluster"),
    column!("External-IP" string Of(external_address) => "Addresses outside the cluster"),
    column!("Port(s)" string Of(ports) => "Ports, ports on nodes and protocols"),
    AGE,
    column!("Selector" wide Of(|service| print::label_set(service.at("spec.selector")))
        => "Labels of the pods behind the service"),
];

fn external_address(service: &Value) -> Value {
    let external = service.texts("spec.externalIPs");
    match service.text("spec.type") {
        "ClusterIP" | "NodePort" => print::or(&external.join(","), "<none>"),
        "LoadBalancer" => {
            let mut addresses = print::load_balancer(service);
            addresses.extend(external);
            print::or(&addresses.join(","), "<pending>")
        }
        "ExternalName" => service.text("spec.externalName").into(),
        _ => "<unknown>".into(),
    }
}

fn ports(service: &Value) -> Value {
    let ports = service.items("spec.ports").iter().map(|port| {
        let (number, protocol) = (port.number("port"), port.text("protocol"));
        match port.number("nodePort") {
            node if node > 0 => format!("{number}:{node}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    });
    print::or(&ports.collect::<Vec<_>>().join(","), "<none>")
}
