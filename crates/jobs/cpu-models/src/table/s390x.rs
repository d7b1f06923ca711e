//! Models of IBM mainframes. Each also exists as `-base`, and some at further levels.

use super::family::Family;

const IBM: &str = "IBM";

/// The smaller model of a generation launches a year later with the same features.
pub(super) const FAMILIES: &[Family] = &[
    Family::new("z900", IBM, 2000, 10).levels(&[2001, 2002]),
    Family::new("z800", IBM, 2002, 11),
    Family::new("z990", IBM, 2003, 20).levels(&[2003, 2004, 2004, 2005]),
    Family::new("z890", IBM, 2004, 21).levels(&[2004, 2005]),
    Family::new("z9EC", IBM, 2005, 30).levels(&[2006, 2007]),
    Family::new("z9BC", IBM, 2006, 31).levels(&[2007]),
    Family::new("z10EC", IBM, 2008, 40).levels(&[2008, 2009]),
    Family::new("z10BC", IBM, 2008, 41).levels(&[2009]),
    Family::new("z196", IBM, 2010, 50).levels(&[2011]),
    Family::new("z114", IBM, 2011, 51),
    Family::new("zEC12", IBM, 2012, 60).levels(&[2013]),
    Family::new("zBC12", IBM, 2013, 61),
    Family::new("z13", IBM, 2015, 70).levels(&[2016]),
    Family::new("z13s", IBM, 2016, 71),
    Family::new("z14", IBM, 2017, 80).levels(&[2018]),
    Family::new("z14ZR1", IBM, 2018, 81),
    Family::new("gen15a", IBM, 2019, 90),
    Family::new("gen15b", IBM, 2020, 91),
    Family::new("gen16a", IBM, 2022, 100),
    Family::new("gen16b", IBM, 2023, 101),
    Family::new("gen17a", IBM, 2025, 110),
    Family::new("gen17b", IBM, 2026, 111),
    Family::generic("qemu"),
    Family::generic("max"),
];
