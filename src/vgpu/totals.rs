//! How much memory a GPU has, by the name of its model. The driver tells the
//! number to NVML alone.

/// Models whose names do not say it and that have one size (of a GeForce RTX 4090
/// there are some with twice the memory), with GiB as NVIDIA's
/// data sheets have it.
const MODELS: [(&str, u64); 21] = [
    ("A10", 24),
    ("A10G", 24),
    ("A16", 16),
    ("A2", 16),
    ("A30", 24),
    ("A40", 48),
    ("H200", 141),
    ("H200 NVL", 141),
    ("H100 NVL", 94),
    ("H100 PCIe", 80),
    ("L4", 24),
    ("L20", 48),
    ("L40", 48),
    ("L40S", 48),
    ("RTX A5000", 24),
    ("RTX A6000", 48),
    ("T4", 16),
    ("GeForce RTX 3090", 24),
    ("P40", 24),
    ("B200", 192),
    ("RTX PRO 6000 Blackwell Server Edition", 96),
];

/// Bytes of memory that no GPU of this model exceeds; `None` for models that are
/// not known. Programs can have up to a tenth less.
pub fn memory_of(model: &str) -> Option<u64> {
    let name = model.strip_prefix("NVIDIA ").unwrap_or(model);
    let name = name.strip_prefix("Tesla ").unwrap_or(name).trim();
    let listed = MODELS.iter().find(|(known, _)| *known == name).map(|(_, gib)| *gib);
    // Of a Grace Hopper the name says how much memory the processor has.
    let says_its_own = !name.starts_with("GH") && !name.starts_with("GB");
    listed.or_else(|| said(name).filter(|_| says_its_own)).and_then(|gib| gib.checked_mul(1 << 30))
}

/// `A100-SXM4-80GB`, `H100 80GB HBM3`.
fn said(name: &str) -> Option<u64> {
    let mut words = name.split([' ', '-']);
    words.find_map(|word| word.strip_suffix("GB")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that names which say it and names which do not are known, and
    /// that others are not guessed.
    #[test]
    fn models() {
        assert_eq!(memory_of("NVIDIA A100-SXM4-80GB"), Some(80 << 30));
        assert_eq!(memory_of("NVIDIA H100 80GB HBM3"), Some(80 << 30));
        assert_eq!(memory_of("Tesla V100-SXM2-16GB"), Some(16 << 30));
        assert_eq!(memory_of("Tesla T4"), Some(16 << 30));
        assert_eq!(memory_of("NVIDIA L40S"), Some(48 << 30));
        for other in ["NVIDIA Future 9000", "", "GB", "NVIDIA GB200", "NVIDIA GH200 480GB"] {
            assert_eq!(memory_of(other), None, "{other}");
        }
    }
}
