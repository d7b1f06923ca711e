//! The order in which manifests are applied, and their dependencies.

use super::Manifest;

/// The name of a file in a payload: `0000_NN_component_rest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileName<'a> {
    /// Its run level.
    pub level: u32,
    /// Its component.
    pub component: &'a str,
}

impl<'a> FileName<'a> {
    /// Parses a name; `None` if it has another form.
    pub fn read(name: &'a str) -> Option<Self> {
        let (level, rest) = name.strip_prefix("0000_")?.split_once('_')?;
        let (component, _) = rest.split_once('_')?;
        let is_component = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if component.is_empty() || !component.chars().all(is_component) {
            return None;
        }
        let is_number = !level.is_empty() && level.bytes().all(|it| it.is_ascii_digit());
        Some(Self {
            level: is_number.then(|| level.parse().ok()).flatten()?,
            component,
        })
    }
}

/// Manifests that are applied in parallel, in several parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyStage {
    /// Components that do not wait for each other.
    pub parts: Vec<Part>,
}

/// Manifests of one component, applied in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The component; empty for files with names of another form.
    pub component: String,
    /// Their indexes among all manifests.
    pub places: Vec<usize>,
}

/// The dependencies during an update: components of one run level are applied in parallel, and the next level waits for
/// all of them. A file with a name of another form is a step of its own. Manifests have to be in the order of their
/// files.
pub fn steps(manifests: &[Manifest]) -> Vec<ApplyStage> {
    let mut steps: Vec<(Option<u32>, ApplyStage)> = Vec::new();
    for (place, manifest) in manifests.iter().enumerate() {
        let name = FileName::read(&manifest.file);
        let level = name.map(|it| it.level);
        let component = name.map_or("", |it| it.component);
        match steps.last_mut() {
            // Only neighbours share a step: files are in the order of their names, so a level is contiguous.
            Some((last, step)) if level.is_some() && *last == level => {
                match step.parts.iter_mut().find(|it| it.component == component) {
                    Some(part) => part.places.push(place),
                    None => step.parts.push(part(component, place)),
                }
            }
            _ => {
                let parts = vec![part(component, place)];
                steps.push((level, ApplyStage { parts }));
            }
        }
    }
    steps.into_iter().map(|(_, step)| step).collect()
}

fn part(component: &str, place: usize) -> Part {
    Part {
        component: component.to_owned(),
        places: vec![place],
    }
}
