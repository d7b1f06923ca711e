//! Checks of services (`ValidateService`, `ValidateServiceUpdate`).

use machinery::field::{FieldError, Path};
use serde_json::Value;

use super::{is_external, is_headless, needs_health_check};
use crate::builtin::entry::Errors;
use crate::builtin::value::{Read, indexed};
use crate::builtin::{check, ip, labels, layout};
use crate::kind::Part;

/// A new service.
pub(super) fn create(service: &Value) -> Errors {
    check_service(service, &Value::Null)
}

/// A changed service.
pub(super) fn update(new: &Value, old: &Value, part: Part<'_>) -> Errors {
    if part == Part::Status {
        return check_load_balancer(new, old);
    }
    let mut errors = check_address_change(new, old);
    errors += check_family_change(new, old);
    errors += check_class(new, Some(old));
    let port = "spec.healthCheckNodePort";
    if needs_health_check(old) && needs_health_check(new) && new.number(port) != old.number(port) {
        errors.forbidden(&Path::new(port), check::IMMUTABLE);
    }
    errors += check_service(new, old);
    errors
}

fn check_service(service: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = Path::new("spec");
    let spec = service.at("spec");
    let kind = spec.text("type");
    let ports = spec.items("ports");
    if ports.is_empty() && !is_headless(service) && kind != "ExternalName" {
        errors.required(&path.child("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(service) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.invalid(&path.child("clusterIPs").index(0), "None", detail);
        }
        "ExternalName" => errors += check_external_name(&path, spec),
        _ => {}
    }
    let mut names = Vec::new();
    for (path, port) in indexed(&path.child("ports"), ports) {
        errors += check_port(&path, port, ports.len() > 1, &mut names);
    }
    errors += labels::check(&path.child("selector"), spec.at("selector"));
    errors += check_affinity(&path, spec);
    errors += check_addresses(service, old);
    let existing = old.texts("spec.externalIPs");
    for (path, address) in indexed(&path.child("externalIPs"), &spec.texts("externalIPs")) {
        let wrong = ip::check(&path, address, &existing);
        if wrong.is_empty() {
            errors += ip::check_endpoint(&path, address);
        }
        errors += wrong;
    }
    let accepted = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    errors += check::one_of(&path.child("type"), kind, &accepted);
    errors += check_port_list(&path.child("ports"), kind, ports);
    errors += check_source_ranges(&path, spec, old);
    let allocate = "allocateLoadBalancerNodePorts";
    if kind != "LoadBalancer" && spec.has(allocate) {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.forbidden(&path.child(allocate), detail);
    }
    if kind == "LoadBalancer" && !spec.has(allocate) {
        // Without its parent, as upstream reports it.
        errors.required(&Path::new(allocate), "");
    }
    errors += check_class(service, None);
    errors += check_traffic(&path, service);
    errors
}

fn check_external_name(path: &Path, spec: &Value) -> Errors {
    let mut errors = Errors::new();
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if spec.count(field) > 0 || spec.maybe_text(field).is_some() {
            let detail = "may not be set for ExternalName services";
            errors.forbidden(&path.child(field), detail);
        }
    }
    let name = spec.text("externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => errors.required(&path.child("externalName"), ""),
        name => errors += check::subdomain(&path.child("externalName"), name),
    }
    errors
}

fn check_port<'a>(
    path: &Path,
    port: &'a Value,
    needs_name: bool,
    names: &mut Vec<&'a str>,
) -> Errors {
    let mut errors = Errors::new();
    let name = port.text("name");
    if needs_name && name.is_empty() {
        errors.required(&path.child("name"), "");
    } else if !name.is_empty() {
        errors += check::label(&path.child("name"), name);
        errors += check::unique(&path.child("name"), name, names);
    }
    errors += check::port_number(&path.child("port"), port.number("port"));
    errors += check::choice(path, port, "protocol", check::PROTOCOLS);
    errors += check::port(&path.child("targetPort"), port.at("targetPort"));
    errors += check::absent_or(path, port, "appProtocol", check::qualified);
    errors
}

fn check_affinity(path: &Path, spec: &Value) -> Errors {
    let affinity = spec.text("sessionAffinity");
    let mut errors = check::one_of(
        &path.child("sessionAffinity"),
        affinity,
        &["ClientIP", "None"],
    );
    let path = path.child("sessionAffinityConfig");
    let config = spec.at("sessionAffinityConfig");
    if affinity == "ClientIP" {
        let detail = "when session affinity type is ClientIP";
        let here = path.child("clientIP");
        let seconds = here.child("timeoutSeconds");
        if config.is_null() {
            errors.required(&path, detail);
        } else if !config.has("clientIP") {
            errors.required(&here, detail);
        } else {
            match config.int("clientIP.timeoutSeconds") {
                None => errors.required(&seconds, detail),
                Some(value) if !(1..=86400).contains(&value) => {
                    let detail = "must be greater than 0 and less than 86400";
                    errors.invalid(&seconds, value, detail);
                }
                Some(_) => {}
            }
        }
    } else if affinity == "None" && !config.is_null() {
        errors.forbidden(&path, "must not be set when session affinity is None");
    }
    errors
}

/// Cluster addresses, families and policy have to be consistent.
fn check_addresses(service: &Value, old: &Value) -> Errors {
    if service.text("spec.type") == "ExternalName" {
        return Errors::new();
    }
    let mut errors = Errors::new();
    let path = Path::new("spec.clusterIPs");
    let all = service.at("spec.clusterIPs");
    let (single, addresses) = (
        service.text("spec.clusterIP"),
        service.texts("spec.clusterIPs"),
    );
    match addresses.first() {
        None if !single.is_empty() => errors.required(&path, ""),
        Some(_) if single.is_empty() => {
            let detail = "must be empty when `clusterIP` is not specified";
            errors.invalid(&path, all.clone(), detail);
        }
        Some(first) if *first != single => {
            errors.invalid(&path, all.clone(), "first value must match `clusterIP`");
        }
        _ => {}
    }
    let families = service.texts("spec.ipFamilies");
    for (i, family) in families.iter().enumerate() {
        let path = Path::new("spec.ipFamilies").index(i);
        errors += check::supported(&path, family, &["IPv4", "IPv6"]);
        if families[..i].contains(family) {
            errors.duplicate(&path, *family);
        }
    }
    let accepted = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    let root = Path::root();
    errors += check::optional_choice(&root, service, "spec.ipFamilyPolicy", &accepted);
    let existing = old.texts("spec.clusterIPs");
    let mut unreadable = false;
    for (i, address) in addresses.iter().enumerate() {
        let wrong = if i == 0 && *address == "None" {
            if addresses.len() == 1 {
                continue;
            }
            let detail = "'None' must be the first and only value";
            FieldError::invalid(&path, all.clone(), detail).into()
        } else {
            ip::check(&path.index(i), address, &existing)
        };
        unreadable |= !wrong.is_empty();
        errors += wrong;
    }
    if addresses.len() > 2 {
        errors.invalid(&path, all.clone(), "may only hold up to 2 values");
    }
    // The family of such an address is unknown, so that the checks below could only mislead.
    if unreadable {
        return errors;
    }
    if addresses.len() > 1
        && addresses
            .iter()
            .filter(|address| ip::is_v6(address))
            .count()
            != 1
    {
        let detail = "may specify no more than one IP for each IP family";
        errors.invalid(&path, all.clone(), detail);
    }
    if !is_headless(service) {
        for (i, (address, family)) in addresses.iter().zip(&families).enumerate() {
            if ip::is_v6(address) != (*family == "IPv6") {
                let detail =
                    format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
                errors.invalid(&path.index(i), *address, detail);
            }
        }
    }
    // The service network here is IPv4 alone, like that of a kube-apiserver with default flags. A
    // headless Service without a selector has no addresses to allocate, and may still ask.
    if service.text("spec.ipFamilyPolicy") == "RequireDualStack"
        && !(is_headless(service) && service.count("spec.selector") == 0)
    {
        errors.invalid(
            &Path::new("spec.ipFamilyPolicy"),
            "RequireDualStack",
            "this cluster is not configured for dual-stack services",
        );
    }
    errors
}

fn check_address_change(new: &Value, old: &Value) -> Errors {
    let external = |service: &Value| service.text("spec.type") == "ExternalName";
    // A change of the type is what allocates and releases addresses; only between two types that
    // have one it must stay.
    if external(new) || external(old) || (is_headless(new) && is_headless(old)) {
        return Errors::new();
    }
    let path = Path::new("spec.clusterIPs");
    let all = new.at("spec.clusterIPs");
    let (now, was) = (new.texts("spec.clusterIPs"), old.texts("spec.clusterIPs"));
    let wrong = |i: usize, detail: &str| {
        let shown = if all.is_null() {
            Value::Null
        } else {
            all.clone()
        };
        FieldError::invalid(&path.index(i), shown, detail)
    };
    let mut errors = Errors::new();
    if now.len() == was.len() {
        for (i, _) in now
            .iter()
            .zip(&was)
            .enumerate()
            .filter(|(_, (now, was))| now != was)
        {
            errors.push(wrong(i, "may not change once set"));
        }
        return errors;
    }
    if now.is_empty() {
        errors.push(wrong(0, "primary clusterIP can not be unset"));
    }
    if let (Some(now), Some(was)) = (now.first(), was.first())
        && now != was
    {
        errors.push(wrong(0, "may not change once set"));
    }
    if was.len() > now.len() && now.len() == 1 {
        let policy = new.at("spec.ipFamilyPolicy");
        if policy != "SingleStack" {
            let detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
            errors.invalid(&Path::new("spec.ipFamilyPolicy"), policy.clone(), detail);
        }
    }
    errors
}

fn check_family_change(new: &Value, old: &Value) -> Errors {
    let external = |service: &Value| service.text("spec.type") == "ExternalName";
    if external(new) || external(old) || is_headless(new) || is_headless(old) {
        return Errors::new();
    }
    let (now, was) = (new.texts("spec.ipFamilies"), old.texts("spec.ipFamilies"));
    let changed = now.iter().zip(&was).filter(|(now, was)| now != was).count();
    let changes = if now.len() == was.len() {
        changed
    } else {
        changed.min(1)
    };
    let path = Path::new("spec.ipFamilies").index(0);
    let shown = new.at("spec.ipFamilies");
    (0..changes)
        .map(|_| FieldError::invalid(&path, shown.clone(), "may not change once set"))
        .collect()
}

fn check_class(service: &Value, old: Option<&Value>) -> Errors {
    let path = Path::new("spec.loadBalancerClass");
    let balances = |service: &Value| service.text("spec.type") == "LoadBalancer";
    let class = service.at("spec.loadBalancerClass");
    let mut errors = Errors::new();
    if let Some(old) = old
        && balances(old)
        && balances(service)
        && old.at("spec.loadBalancerClass") != class
    {
        errors.invalid(&path, class.clone(), "may not change once set");
    }
    match class.as_str() {
        Some(class) if balances(service) => errors += check::qualified(&path, class),
        Some(_) => {
            errors.forbidden(&path, "may only be used when `type` is 'LoadBalancer'");
        }
        None => {}
    }
    errors
}

fn check_port_list(path: &Path, kind: &str, ports: &[Value]) -> Errors {
    let mut errors = Errors::new();
    let (mut node_ports, mut numbers) = (Vec::new(), Vec::new());
    if kind == "ClusterIP" {
        for (i, _) in ports
            .iter()
            .enumerate()
            .filter(|(_, port)| port.number("nodePort") != 0)
        {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.forbidden(&path.index(i).child("nodePort"), detail);
        }
    }
    for (i, port) in ports.iter().enumerate() {
        let key = (port.text("protocol"), port.number("nodePort"));
        if key.1 != 0 && node_ports.contains(&key) {
            errors.duplicate(&path.index(i).child("nodePort"), key.1);
        }
        node_ports.push(key);
    }
    for (i, port) in ports.iter().enumerate() {
        let key = (port.text("protocol"), port.number("port"));
        if numbers.contains(&key) {
            let shown = serde_json::json!({ "protocol": key.0, "port": key.1 });
            errors.push(layout::duplicate(&path.index(i), "ServicePort", &shown));
        }
        numbers.push(key);
    }
    errors
}

fn check_source_ranges(path: &Path, spec: &Value, old: &Value) -> Errors {
    let ranges = spec.texts("loadBalancerSourceRanges");
    if ranges.is_empty() {
        return Errors::new();
    }
    let mut errors = Errors::new();
    // Upstream's path has a capital letter.
    let path = path.child("LoadBalancerSourceRanges");
    if spec.text("type") != "LoadBalancer" {
        errors.forbidden(&path, "may only be used when `type` is 'LoadBalancer'");
    }
    let existing: Vec<&str> = old
        .texts("spec.loadBalancerSourceRanges")
        .into_iter()
        .map(str::trim)
        .collect();
    for (i, range) in ranges.iter().enumerate() {
        errors += ip::check_cidr(&path.index(i), range.trim(), &existing);
    }
    errors
}

fn check_traffic(path: &Path, service: &Value) -> Errors {
    let mut errors = Errors::new();
    let here = path.child("externalTrafficPolicy");
    let policy = service.text("spec.externalTrafficPolicy");
    if is_external(service) {
        errors += check::one_of(&here, policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.invalid(&here, policy, detail);
    }
    let here = path.child("healthCheckNodePort");
    match (
        needs_health_check(service),
        service.number("spec.healthCheckNodePort"),
    ) {
        (true, 0) => errors.required(&here, ""),
        (true, port) => errors += check::port_number(&here, port),
        (false, 0) => {}
        (false, port) => {
            let detail = "may only be set when `type` is 'LoadBalancer' and \
                          `externalTrafficPolicy` is 'Local'";
            errors.invalid(&here, port, detail);
        }
    }
    let here = path.child("internalTrafficPolicy");
    match service.maybe_text("spec.internalTrafficPolicy") {
        None if super::needs_cluster_ip(service) => errors.required(&here, ""),
        policy => errors += check::maybe_one_of(&here, policy, &["Cluster", "Local"]),
    }
    let accepted = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    let spec = service.at("spec");
    errors += check::optional_choice(path, spec, "trafficDistribution", &accepted);
    errors
}

fn check_load_balancer(new: &Value, old: &Value) -> Errors {
    let path = Path::new("status.loadBalancer.ingress");
    let list = "status.loadBalancer.ingress";
    let existing: Vec<&str> = old
        .items(list)
        .iter()
        .map(|ingress| ingress.text("ip"))
        .collect();
    let mut errors = Errors::new();
    if new.text("spec.type") != "LoadBalancer" && new.count(list) > 0 {
        let detail = "may only be used when `spec.type` is \"LoadBalancer\"";
        errors.forbidden(&path, detail);
        return errors;
    }
    for (path, ingress) in indexed(&path, new.items(list)) {
        let address = ingress.text("ip");
        if !address.is_empty() {
            errors += ip::check(&path.child("ip"), address, &existing);
        }
        let host = ingress.text("hostname");
        if !host.is_empty() {
            errors += check::subdomain(&path.child("hostname"), host);
            if ip::parse_sloppy(host).is_some() {
                let detail = "must be a DNS name, not an IP address";
                errors.invalid(&path.child("hostname"), host, detail);
            }
        }
    }
    errors
}

/// Warnings about a service.
pub(super) fn warnings(service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let hints = "service.kubernetes.io/topology-aware-hints";
    if service.annotation(hints).is_some() {
        warnings.push(format!(
            "annotation {hints} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    let spec = service.at("spec");
    let kind = spec.text("type");
    let external = spec.count("externalIPs") > 0;
    if is_headless(service) {
        let ignored = [
            (
                !spec.text("loadBalancerIP").is_empty(),
                "spec.loadBalancerIP",
            ),
            (external, "spec.externalIPs"),
            (
                spec.text("sessionAffinity") != "None",
                "spec.SessionAffinity",
            ),
        ];
        let ignored = ignored.iter().filter(|(set, _)| *set);
        warnings
            .extend(ignored.map(|(_, field)| format!("{field} is ignored for headless services")));
    } else if external && kind != "ExternalName" {
        let text =
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(text.to_owned());
    }
    if kind == "ExternalName" && external {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !spec.text("externalName").is_empty() {
        let text = "spec.externalName is ignored when spec.type is not \"ExternalName\"";
        warnings.push(text.to_owned());
    }
    if spec.text("trafficDistribution") == "PreferClose" {
        let text =
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(text.to_owned());
    }
    warnings
}
