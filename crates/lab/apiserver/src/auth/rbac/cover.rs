//! Coverage of rules by others: users cannot grant permissions they do not have.

use std::collections::BTreeSet;

use machinery::json::go_quote;

use super::{ALL, Rule, has, url_covers};

/// The parts of `wanted` that no single rule of `held` includes, each with one verb and one
/// resource or path (`component-helpers/auth/rbac/validation.Covers`).
pub(crate) fn uncovered(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let parts = wanted.iter().flat_map(parts);
    parts
        .filter(|part| !held.iter().any(|rule| includes(rule, part)))
        .collect()
}

/// A rule split into one verb and one group, resource and name, or one path each.
fn parts(rule: &Rule) -> Vec<Rule> {
    let one = |text: &String| vec![text.clone()];
    let names: Vec<Vec<String>> = if rule.names.is_empty() {
        vec![Vec::new()]
    } else {
        rule.names.iter().map(one).collect()
    };
    let mut parts = Vec::new();
    for group in &rule.groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                parts.extend(names.iter().map(|names| Rule {
                    verbs: one(verb),
                    groups: one(group),
                    resources: one(resource),
                    names: names.clone(),
                    urls: Vec::new(),
                }));
            }
        }
    }
    for url in &rule.urls {
        parts.extend(rule.verbs.iter().map(|verb| Rule {
            verbs: one(verb),
            urls: one(url),
            ..Rule::default()
        }));
    }
    parts
}

/// Whether a rule includes a part of another.
fn includes(rule: &Rule, part: &Rule) -> bool {
    let all = |held: &[String], wanted: &[String]| {
        has(held, ALL) || wanted.iter().all(|text| has(held, text))
    };
    // A rule for all names is covered only by a rule for all names: holding every existing name is
    // not holding those to come.
    let names = if part.names.is_empty() {
        rule.names.is_empty()
    } else {
        rule.names.is_empty() || part.names.iter().all(|name| has(&rule.names, name))
    };
    names
        && all(&rule.verbs, &part.verbs)
        && all(&rule.groups, &part.groups)
        && part
            .resources
            .iter()
            .all(|resource| includes_resource(&rule.resources, resource))
        && part
            .urls
            .iter()
            .all(|url| rule.urls.iter().any(|held| url_covers(held, url)))
}

fn includes_resource(held: &[String], wanted: &str) -> bool {
    let everywhere = wanted
        .split_once('/')
        .is_some_and(|(_, below)| has(held, &format!("*/{below}")));
    everywhere || has(held, ALL) || has(held, wanted)
}

/// Merges parts that differ only in their verb.
pub(crate) fn compact(parts: &[Rule]) -> Vec<Rule> {
    let mut merged: Vec<Rule> = Vec::new();
    for part in parts {
        let same = merged.iter_mut().find(|known| {
            part.urls.is_empty()
                && known.groups == part.groups
                && known.resources == part.resources
                && known.names == part.names
                && known.urls.is_empty()
        });
        match same {
            Some(known) => known.verbs.extend(part.verbs.iter().cloned()),
            None => merged.push(part.clone()),
        }
    }
    merged
}

/// Rules as listed in a denial: one per line, sorted, without duplicates.
pub(crate) fn describe(rules: &[Rule]) -> String {
    let lines: BTreeSet<String> = rules.iter().map(describe_one).collect();
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

fn describe_one(rule: &Rule) -> String {
    let fields = [
        ("APIGroups", &rule.groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.urls),
        ("ResourceNames", &rule.names),
        ("Verbs", &rule.verbs),
    ];
    let shown: Vec<String> = fields
        .iter()
        .filter(|(_, texts)| !texts.is_empty())
        .map(|(name, texts)| format!("{name}:{}", quoted(texts)))
        .collect();
    format!("{{{}}}", shown.join(", "))
}

/// A list as Go's `%q` shows it.
pub(crate) fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| go_quote(text)).collect();
    format!("[{}]", texts.join(" "))
}
