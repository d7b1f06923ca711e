//! Validation of a fleet file.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use machinery::field::{FieldError, Path};
use machinery::names;
use machinery::quantity::Quantity;

use super::{Amount, Cpu, Fleet, GENERATIONS, Generation, Machine, Pool};
use crate::nodes::address;

/// Architectures Kubernetes has images for.
const ARCHITECTURES: [&str; 8] = [
    "386", "amd64", "arm", "arm64", "loong64", "ppc64le", "riscv64", "s390x",
];
const SYSTEMS: [&str; 2] = ["linux", "windows"];
/// Architectures supported by KubeVirt.
const GUESTS: [&str; 3] = ["amd64", "arm64", "s390x"];
const STRATEGIES: [&str; 5] = ["Always", "Halted", "Manual", "Once", "RerunOnFailure"];
const EVICTIONS: [&str; 4] = ["External", "LiveMigrate", "LiveMigrateIfPossible", "None"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn fleet(fleet: &Fleet) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = Path::new("pools");
    let (mut names, mut prefixes) = (BTreeSet::new(), BTreeSet::new());
    for (index, pool) in fleet.pools.iter().enumerate() {
        let at = path.index(index);
        if !names.insert(&pool.name) {
            errors.push(FieldError::duplicate(&at.child("name"), pool.name.as_str()));
        }
        if !prefixes.insert(pool.prefix()) {
            errors.push(FieldError::duplicate(&at.child("prefix"), pool.prefix()));
        }
        pool_errors(pool, &at, &mut errors);
    }
    let total: u64 = fleet.pools.iter().map(|pool| u64::from(pool.count)).sum();
    if total > u64::from(address::CAPACITY) {
        let detail = format!("must be at most {} nodes in all", address::CAPACITY);
        errors.push(FieldError::invalid(&path, total, detail));
    }
    machines(fleet, &mut errors);
    errors
}

fn machines(fleet: &Fleet, errors: &mut Vec<FieldError>) {
    let path = Path::new("virtualMachines");
    let mut names = BTreeSet::new();
    for (index, machine) in fleet.virtual_machines.iter().enumerate() {
        let at = path.index(index);
        if !names.insert((&machine.namespace, &machine.name)) {
            let name = machine.name.as_str();
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        machine_errors(machine, &at, errors);
    }
}

fn machine_errors(machine: &Machine, at: &Path, errors: &mut Vec<FieldError>) {
    for (field, name) in [("name", &machine.name), ("namespace", &machine.namespace)] {
        for why in names::is_dns1123_label(name) {
            errors.push(FieldError::invalid(&at.child(field), name.as_str(), why));
        }
    }
    let mut check = |field: &str, value: &str, accepted: &[&'static str]| {
        if !accepted.contains(&value) {
            let accepted = accepted.iter().copied();
            errors.push(FieldError::not_supported(&at.child(field), value, accepted));
        }
    };
    check("arch", &machine.arch, &GUESTS);
    check("runStrategy", &machine.run_strategy, &STRATEGIES);
    if let Some(strategy) = &machine.eviction_strategy {
        check("evictionStrategy", strategy, &EVICTIONS);
    }
    if let Some(model) = &machine.cpu_model {
        // The model becomes the name part of a label key.
        for why in names::is_qualified_name(model) {
            errors.push(FieldError::invalid(
                &at.child("cpuModel"),
                model.as_str(),
                why,
            ));
        }
    }
    for (key, value) in &machine.node_selector {
        let path = at.child("nodeSelector").key(key);
        let found = names::is_qualified_name(key).into_iter();
        for why in found.chain(names::is_valid_label_value(value)) {
            errors.push(FieldError::invalid(&path, value.as_str(), why));
        }
    }
    let memory = BTreeMap::from([("memory".to_owned(), machine.memory.clone())]);
    amounts(&memory, at, errors);
}

fn pool_errors(pool: &Pool, at: &Path, errors: &mut Vec<FieldError>) {
    let mut check = |path: Path, value: &str, found: Vec<String>| {
        errors.extend(
            found
                .into_iter()
                .map(|why| FieldError::invalid(&path, value, why)),
        );
    };
    check(
        at.child("name"),
        &pool.name,
        names::is_dns1123_label(&pool.name),
    );
    if let Some(prefix) = &pool.prefix {
        check(
            at.child("prefix"),
            prefix,
            names::is_dns1123_subdomain(prefix),
        );
    }
    for (index, handler) in pool.runtime_handlers.iter().enumerate() {
        check(
            at.child("runtimeHandlers").index(index),
            handler,
            names::is_dns1123_label(handler),
        );
    }
    for (index, role) in pool.roles.iter().enumerate() {
        check(
            at.child("roles").index(index),
            role,
            names::is_dns1123_label(role),
        );
    }
    for (index, zone) in pool.zones.iter().enumerate() {
        check(
            at.child("zones").index(index),
            zone,
            names::is_valid_label_value(zone),
        );
    }
    if let Some(region) = &pool.region {
        check(
            at.child("region"),
            region,
            names::is_valid_label_value(region),
        );
    }
    for (key, value) in &pool.labels {
        let path = at.child("labels").key(key);
        check(path.clone(), key, names::is_qualified_name(key));
        check(path, value, names::is_valid_label_value(value));
    }
    for key in pool.annotations.keys() {
        let path = at.child("annotations").key(key);
        check(path, key, names::is_qualified_name(&key.to_lowercase()));
    }
    for (index, taint) in pool.taints.iter().enumerate() {
        let path = at.child("taints").index(index);
        check(
            path.child("key"),
            &taint.key,
            names::is_qualified_name(&taint.key),
        );
        let value = taint.value.as_deref().unwrap_or_default();
        check(
            path.child("value"),
            value,
            names::is_valid_label_value(value),
        );
    }
    for (index, taint) in pool.taints.iter().enumerate() {
        if !EFFECTS.contains(&taint.effect.as_str()) {
            let path = at.child("taints").index(index).child("effect");
            errors.push(FieldError::not_supported(
                &path,
                taint.effect.as_str(),
                EFFECTS,
            ));
        }
    }
    if !ARCHITECTURES.contains(&pool.arch.as_str()) {
        errors.push(FieldError::not_supported(
            &at.child("arch"),
            pool.arch.as_str(),
            ARCHITECTURES,
        ));
    }
    if !SYSTEMS.contains(&pool.os.as_str()) {
        errors.push(FieldError::not_supported(
            &at.child("os"),
            pool.os.as_str(),
            SYSTEMS,
        ));
    }
    windows_build(pool, at, errors);
    amounts(&pool.capacity, &at.child("capacity"), errors);
    amounts(&pool.reserved, &at.child("reserved"), errors);
    if let Some(cpu) = &pool.cpu {
        cpu_errors(cpu, pool, &at.child("cpu"), errors);
    }
}

fn windows_build(pool: &Pool, at: &Path, errors: &mut Vec<FieldError>) {
    let path = at.child("windowsBuild");
    match (&pool.windows_build, pool.os.as_str()) {
        (Some(build), "windows") => {
            let parts: Vec<&str> = build.split('.').collect();
            let numbers = parts.iter().all(|part| part.parse::<u32>().is_ok());
            if parts.len() != 3 || !numbers {
                let detail = "must be major.minor.build, for example 10.0.20348";
                errors.push(FieldError::invalid(&path, build.as_str(), detail));
            }
        }
        (Some(_), _) => {
            let detail = "may be set only when `os` is windows";
            errors.push(FieldError::forbidden(&path, detail));
        }
        (None, "windows") => {
            let detail = "is required for Windows nodes, for example 10.0.20348";
            errors.push(FieldError::required(&path, detail));
        }
        (None, _) => {}
    }
}

fn amounts(amounts: &BTreeMap<String, Amount>, at: &Path, errors: &mut Vec<FieldError>) {
    for (name, amount) in amounts {
        let path = at.key(name);
        for why in names::is_qualified_name(name) {
            errors.push(FieldError::invalid(&path, name.as_str(), why));
        }
        let text = amount.to_string();
        match Quantity::from_str(&text) {
            Err(error) => {
                let detail = format!("must be a quantity, for example 4, 500m or 16Gi: {error}");
                errors.push(FieldError::invalid(&path, text, detail));
            }
            Ok(quantity) if quantity.sign() < 0 => {
                errors.push(FieldError::invalid(&path, text, "must not be negative"));
            }
            Ok(quantity) if name == "pods" && quantity.value() > address::PODS_PER_NODE => {
                let detail = format!(
                    "must be at most {}: a node has that many addresses",
                    address::PODS_PER_NODE
                );
                errors.push(FieldError::invalid(&path, text, detail));
            }
            Ok(_) => {}
        }
    }
}

fn cpu_errors(cpu: &Cpu, pool: &Pool, at: &Path, errors: &mut Vec<FieldError>) {
    if let Some(name) = &cpu.generation {
        generation_errors(name, cpu, pool, at, errors);
        return;
    }
    for (field, value) in [("vendor", &cpu.vendor), ("model", &cpu.model)] {
        if value.is_empty() {
            let detail = "is required unless `generation` is set";
            errors.push(FieldError::required(&at.child(field), detail));
        }
    }
    let mut check = |path: Path, value: &str| {
        // Each value becomes the name part of a label key.
        let found = names::is_qualified_name(value);
        let slash = value
            .contains('/')
            .then(|| "must not contain '/'".to_owned());
        for why in found.into_iter().chain(slash) {
            errors.push(FieldError::invalid(&path, value, why));
        }
    };
    for (field, value) in [("vendor", &cpu.vendor), ("model", &cpu.model)] {
        if !value.is_empty() {
            check(at.child(field), value);
        }
    }
    let lists = [
        ("models", &cpu.models),
        ("knownModels", &cpu.known_models),
        ("features", &cpu.features),
        ("requiredFeatures", &cpu.required_features),
        ("machineTypes", &cpu.machine_types),
    ];
    for (name, list) in lists {
        for (index, value) in list.iter().enumerate() {
            check(at.child(name).index(index), value);
        }
    }
}

fn generation_errors(name: &str, cpu: &Cpu, pool: &Pool, at: &Path, errors: &mut Vec<FieldError>) {
    let path = at.child("generation");
    match Generation::named(name) {
        None => {
            let names = GENERATIONS.map(|generation| generation.name);
            errors.push(FieldError::not_supported(&path, name, names));
        }
        Some(generation) if generation.arch != pool.arch => {
            let detail = format!(
                "is a generation of {}, but `arch` is {}",
                generation.arch, pool.arch
            );
            errors.push(FieldError::invalid(&path, name, detail));
        }
        Some(_) => {}
    }
    if *cpu != Cpu::of_generation(name) {
        let detail = "defines the whole CPU: no other field may be set with it";
        errors.push(FieldError::forbidden(&path, detail));
    }
}
