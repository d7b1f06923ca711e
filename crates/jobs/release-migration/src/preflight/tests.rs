use rstest::rstest;

use super::*;

fn platforms(all: &[&str]) -> Vec<Platform> {
    all.iter().map(|it| it.parse().unwrap()).collect()
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|&it| it.to_owned()).collect()
}

#[rstest]
#[case(ImageInspection::Index(platforms(&["linux/amd64", "linux/arm64/v8", "linux/s390x"])), "Ready", &[])]
#[case(ImageInspection::Index(platforms(&["linux/amd64"])), "Missing", &["arm64", "s390x"])]
#[case(ImageInspection::Index(platforms(&["linux/arm64", "windows/s390x"])), "Missing", &["s390x"])]
#[case(ImageInspection::Index(Vec::new()), "Missing", &["arm64", "s390x"])]
#[case(ImageInspection::Single(Some("linux/arm64".parse().unwrap())), "NotAnIndex", &["s390x"])]
#[case(ImageInspection::Single(None), "NotAnIndex", &["arm64", "s390x"])]
#[case(ImageInspection::Error("no".to_owned()), "Unknown", &[])]
fn images_are_evaluated(
    #[case] answer: ImageInspection,
    #[case] word: &str,
    #[case] missing: &[&str],
) {
    let checked = judge("cli", "q/r:1", &words(&["arm64", "s390x"]), None, answer);
    assert_eq!(checked.fitness.word(), word);
    assert_eq!(checked.fitness.missing(), missing);
}

#[test]
fn single_manifest_may_suffice() {
    let single = ImageInspection::Single(Some("linux/arm64".parse().unwrap()));
    let checked = judge("cli", "q/r:1", &words(&["arm64"]), None, single);
    assert_eq!(checked.fitness, ImageVerdict::Ready);
}

#[test]
fn one_bad_image_fails_the_preflight() {
    let wanted = words(&["arm64"]);
    let image = |name: &str, all: &[&str]| {
        judge(
            name,
            "q/r:1",
            &wanted,
            None,
            ImageInspection::Index(platforms(all)),
        )
    };
    let good = image("b", &["linux/amd64", "linux/arm64"]);
    let bad = image("a", &["linux/amd64"]);
    let both = Preflight::of(&wanted, vec![good.clone(), bad.clone()]);
    assert!(!both.ready);
    assert_eq!(both.bad(), 1);
    assert_eq!(both.common(), ["amd64"]);
    let names: Vec<_> = both.images.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let mut excepted = bad;
    excepted.fitness = ImageVerdict::Excepted;
    let allowed = Preflight::of(&wanted, vec![good, excepted]);
    assert!(allowed.ready);
    assert_eq!(allowed.common(), ["amd64", "arm64"]);
    assert!(!Preflight::of(&wanted, Vec::new()).ready);
}
