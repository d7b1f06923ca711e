//! Which architectures and variants run where, the best first (`platformVector` of containerd).

use crate::platform::Platform;

/// Variants above this number are treated as unknown.
// Variants come from image configs, which users write: `v4000000000` must not make a list of four billion fallbacks.
const NEWEST: u32 = 32;

/// An architecture and a variant, normalised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FallbackPlatform {
    pub(super) architecture: String,
    pub(super) variant: String,
}

impl FallbackPlatform {
    pub(super) fn of(platform: &Platform) -> Self {
        Self {
            architecture: platform.architecture.clone(),
            variant: platform.variant.clone(),
        }
    }

    /// Whether a (normalised) platform has this architecture and variant.
    pub(super) fn is(&self, platform: &Platform) -> bool {
        self.architecture == platform.architecture && self.variant == platform.variant
    }

    /// The normal form: `v1` of `amd64` and `v8` of `arm64` are omitted.
    fn new(architecture: &str, variant: impl Into<String>) -> Self {
        let platform = Platform::new("", architecture).with_variant(variant);
        Self::of(&platform.normalised())
    }
}

/// What a node of a (normalised) platform runs, best first.
pub(super) fn steps(node: &Platform) -> Vec<FallbackPlatform> {
    match node.architecture.as_str() {
        "amd64" => {
            let mut steps = vec![FallbackPlatform::of(node)];
            if let Some(newest) = generation(&node.variant) {
                steps.extend(
                    (1..newest)
                        .rev()
                        .map(|n| FallbackPlatform::new("amd64", format!("v{n}"))),
                );
            }
            // Last: an amd64 node runs 32-bit images, but only if the index has nothing better.
            // arm64 does the same with `arm/v8` and older.
            steps.push(FallbackPlatform::new("386", ""));
            steps
        }
        "arm" => arm(&node.variant),
        "arm64" => arm64(&node.variant),
        _ => vec![FallbackPlatform::of(node)],
    }
}

fn arm(variant: &str) -> Vec<FallbackPlatform> {
    let mut steps = vec![FallbackPlatform::new("arm", variant)];
    if let Some(newest) = generation(variant) {
        // Versions before v5 have no common baseline.
        steps.extend(
            (5..newest)
                .rev()
                .map(|n| FallbackPlatform::new("arm", format!("v{n}"))),
        );
    }
    steps
}

/// `v9.x` includes `v8.(x+5)`. An unknown variant runs nothing, as in containerd.
fn arm64(variant: &str) -> Vec<FallbackPlatform> {
    let (major, minor) = match variant.strip_prefix('v') {
        None if variant.is_empty() => (8, 0),
        None => return Vec::new(),
        Some(version) => {
            let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
            match (major, small(minor)) {
                ("8", Some(minor @ 0..=9)) => (8, minor),
                ("9", Some(minor @ 0..=7)) => (9, minor),
                _ => return Vec::new(),
            }
        }
    };
    let down = |major: u32, minor: u32| {
        (0..=minor).rev().map(move |minor| {
            if minor == 0 {
                FallbackPlatform::new("arm64", format!("v{major}"))
            } else {
                FallbackPlatform::new("arm64", format!("v{major}.{minor}"))
            }
        })
    };
    let mut steps: Vec<FallbackPlatform> = Vec::new();
    if major == 9 {
        steps.extend(down(9, minor));
        steps.extend(down(8, (minor + 5).min(9)));
    } else {
        steps.extend(down(8, minor));
    }
    steps.extend(arm("v8"));
    steps
}

/// The number of a variant such as `v3`. Newer ones than the newest known include all.
fn generation(variant: &str) -> Option<u32> {
    let digits = variant.strip_prefix('v')?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().map_or(NEWEST, |n: u32| n.min(NEWEST)))
}

/// A small number, of digits alone.
fn small(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|n| *n <= NEWEST)
}

/// How much a (normalised) variant demands of the CPU; 0 is the base variant.
///
/// Of `arm`, variants up to `v7` count as base, newest first. Unknown variants come last.
pub(super) fn demand(image: &Platform) -> usize {
    const LAST: usize = usize::MAX;
    let version = image.variant.strip_prefix('v').unwrap_or(&image.variant);
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let (Some(major), Some(minor)) = (small(major), small(minor)) else {
        return if image.variant.is_empty() { 0 } else { LAST };
    };
    let number = match image.architecture.as_str() {
        "arm" if major <= 7 => 7 - major,
        // After all known variants.
        _ => (major * (NEWEST + 1) + minor).saturating_add(7),
    };
    usize::try_from(number).unwrap_or(LAST)
}
