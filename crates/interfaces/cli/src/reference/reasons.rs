//! The pages of events and conditions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use api::reasons::{ANY, Conditions};
use controllers::reasons::{COMPONENTS, CONDITIONS};

use super::{begin, code, sentence, table};

pub(super) fn events() -> String {
    let mut page = begin("Events", "the lists `words` of the job crates");
    page.push_str(
        "\nEvents are emitted when a state changes, not at every reconcile. `kubectl events --for` shows those \
         of an object. By component:\n",
    );
    for component in COMPONENTS {
        let _ = write!(
            page,
            "\n## {}\n\n{}\n",
            component.name,
            sentence(component.about)
        );
        let rows = component.events.iter().map(|event| {
            vec![
                code(event.reason),
                event.event_type.as_str().to_owned(),
                event.about.to_owned(),
                sentence(event.when),
            ]
        });
        table(&mut page, &["reason", "type", "about", "when"], rows);
    }
    page
}

pub(super) fn conditions() -> String {
    let mut page = begin("Conditions", "the lists `words` of the job crates");
    page.push_str(
        "\nA condition has a status, the time of its last transition, a reason, which is listed here, and a \
         message. By kind:\n",
    );
    let mut kinds: BTreeMap<&str, Vec<&Conditions>> = BTreeMap::new();
    for group in CONDITIONS.iter().copied().flatten() {
        kinds.entry(group.of).or_default().push(group);
    }
    for (kind, groups) in kinds {
        let _ = write!(page, "\n## {kind}\n");
        for group in groups {
            describe(&mut page, group);
        }
    }
    page
}

fn describe(page: &mut String, group: &Conditions) {
    let names: Vec<&str> = group.types.iter().map(|(name, _)| *name).collect();
    let _ = write!(page, "\n### {}\n\n", names.join(", "));
    for (name, meaning) in group.types {
        let _ = writeln!(page, "* `{name}`: {meaning}");
    }
    let rows = group.all().map(|reason| {
        let name = match reason.name {
            "" => "(none)".to_owned(),
            ANY => "(other)".to_owned(),
            name => code(name),
        };
        vec![
            name,
            reason.status.to_owned(),
            reason.meaning.to_owned(),
            reason.advice.to_owned(),
        ]
    });
    table(page, &["reason", "status", "meaning", "what to do"], rows);
}
