//! chmod's modes: octal, or `[ugoa]*[-+=][rwxXt]*` with commas between.

/// A change of permission bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// These bits.
    Bits(u16),
    /// Changes, one after another.
    Changes(Vec<Change>),
}

/// One part of a symbolic mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which of the three classes, as bits 0o7, 0o70, 0o700 of a mask.
    who: u16,
    operator: char,
    /// r, w, x as 4, 2, 1.
    access: u16,
    /// X: x where it is a directory or anybody has x.
    execute_if_any: bool,
    sticky: bool,
}

impl Mode {
    /// Parses a mode.
    pub fn parse(text: &str) -> Result<Mode, String> {
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return match u16::from_str_radix(text, 8) {
                Ok(bits) if bits <= 0o1777 && text.len() >= 3 => Ok(Mode::Bits(bits)),
                _ => Err(format!(
                    "{text:?} is no mode: give three or four octal digits up to 1777, such as 644"
                )),
            };
        }
        let changes: Option<Vec<Change>> = text.split(',').map(change).collect();
        changes
            .map(Mode::Changes)
            .ok_or_else(|| format!("{text:?} is no mode: give 644, or u+x,g-w,o=r, or +t"))
    }

    /// The bits that come of it.
    pub fn apply(&self, bits: u16, is_dir: bool) -> u16 {
        match self {
            Mode::Bits(bits) => *bits,
            Mode::Changes(changes) => changes.iter().fold(bits, |bits, change| change.apply(bits, is_dir)),
        }
    }
}

fn change(text: &str) -> Option<Change> {
    let at = text.find(['+', '-', '='])?;
    let (classes, rest) = text.split_at(at);
    let mut who = 0;
    for class in classes.chars() {
        who |= match class {
            'u' => 0o700,
            'g' => 0o070,
            'o' => 0o007,
            'a' => 0o777,
            _ => return None,
        };
    }
    let mut letters = rest.chars();
    let operator = letters.next()?;
    let mut change = Change {
        who: if who == 0 { 0o777 } else { who },
        operator,
        access: 0,
        execute_if_any: false,
        sticky: false,
    };
    for letter in letters {
        match letter {
            'r' => change.access |= 4,
            'w' => change.access |= 2,
            'x' => change.access |= 1,
            'X' => change.execute_if_any = true,
            't' => change.sticky = true,
            _ => return None,
        }
    }
    Some(change)
}

impl Change {
    fn apply(&self, bits: u16, is_dir: bool) -> u16 {
        let any = self.execute_if_any && (is_dir || bits & 0o111 != 0);
        let access = self.access | u16::from(any);
        let all = access << 6 | access << 3 | access;
        let (mask, sticky) = (all & self.who, if self.sticky { 0o1000 } else { 0 });
        match self.operator {
            '+' => bits | mask | sticky,
            '-' => bits & !mask & !sticky,
            _ => (bits & !self.who & 0o777) | mask | (bits & 0o1000) | sticky,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(mode: &str, bits: u16, is_dir: bool) -> u16 {
        Mode::parse(mode).unwrap().apply(bits, is_dir)
    }

    #[test]
    fn modes_change_what_they_name() {
        assert_eq!(after("750", 0, false), 0o750);
        assert_eq!(after("u+x,g-w,o=", 0o666, false), 0o740);
        assert_eq!(after("+t", 0o755, true), 0o1755);
        assert_eq!(after("-t", 0o1755, true), 0o755);
        assert_eq!(after("a=rX", 0o600, true), 0o555);
        assert_eq!(after("go+X", 0o600, false), 0o600);
        assert_eq!(after("=r", 0o1777, false), 0o1444);
    }

    #[test]
    fn what_is_no_mode_is_refused() {
        for bad in ["", "8", "4755", "77", "u", "u*x", "z+x", "u+s", "999"] {
            assert!(Mode::parse(bad).is_err(), "{bad}");
        }
    }
}
