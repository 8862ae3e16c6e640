//! Pages in a real browser, at several widths: nothing overlaps, nothing sticks out, nothing complains.
//!
//! It needs Chromium, so it runs only with `TRELLIS_TEST_BROWSER=1`, which `cargo xtask test browser` sets.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use super::pages;

const WIDTHS: [u32; 4] = [360, 400, 760, 1280];

/// A page cannot measure itself, since it forbids scripts: this one holds it in frames of several widths and looks in.
const LOOKS: &str = r#"
<script>
function boxes(svg) {
  return [...svg.querySelectorAll('text')].map(text => ({ says: text.textContent, box: text.getBoundingClientRect() }));
}
function meet(a, b) {
  return a.left + 1 < b.right && b.left + 1 < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
}
function faults(frame) {
  const page = frame.contentDocument, found = [], width = page.documentElement.clientWidth;
  // With all tables open.
  page.querySelectorAll('details').forEach(details => details.open = true);
  if (page.documentElement.scrollWidth > width) found.push(`it is ${page.documentElement.scrollWidth} wide`);
  const drawings = [...page.querySelectorAll('figure > svg')].filter(svg => svg.getBoundingClientRect().width > 0);
  if (drawings.length === 0) found.push('it has no drawing');
  for (const svg of drawings) {
    const outer = svg.getBoundingClientRect(), texts = boxes(svg);
    texts.forEach((one, index) => {
      const { box, says } = one;
      if (box.left < outer.left - 1 || box.right > outer.right + 1 || box.top < outer.top - 1 || box.bottom > outer.bottom + 1)
        found.push(`"${says}" sticks out of its drawing`);
      if (box.height < 9) found.push(`"${says}" is ${box.height} high`);
      texts.slice(index + 1).filter(other => meet(box, other.box)).forEach(other => found.push(`"${says}" meets "${other.says}"`));
    });
  }
  return found.map(fault => `${frame.width}: ${fault}`);
}
addEventListener('load', () => {
  const all = [...document.querySelectorAll('iframe')].flatMap(faults);
  document.body.textContent = ['looked', ...all].join('\n');
});
</script>
"#;

#[test]
fn pages_are_sound_in_a_browser() {
    if std::env::var_os("TRELLIS_TEST_BROWSER").is_none() {
        eprintln!("skipped: TRELLIS_TEST_BROWSER is not set");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, page) in pages::all() {
        let mut outer = format!("<!DOCTYPE html><meta charset=utf-8>{LOOKS}<body>");
        let quoted = page.replace('&', "&amp;").replace('"', "&quot;");
        for width in WIDTHS {
            let _ = write!(outer, "<iframe width={width} height=900 srcdoc=\"{quoted}\"></iframe>");
        }
        let path = dir.path().join(format!("{name}.html"));
        fs::write(&path, outer).unwrap();
        let looked = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
            .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
            .args(["--window-size=1400,1000", "--virtual-time-budget=30000"])
            .arg(format!("file://{}", path.display()))
            .output()
            .unwrap();
        let (dom, log) = (String::from_utf8_lossy(&looked.stdout), String::from_utf8_lossy(&looked.stderr));
        assert!(looked.status.success(), "{name}: {log}");
        let said = dom.split_once("<body>").map(|(_, body)| body.trim_end()).unwrap_or_default();
        assert!(said.starts_with("looked</body>"), "{name}: {said}");
        // What a page, or its policy, complains of.
        let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(complaints.is_empty(), "{name}: {complaints:#?}");
    }
}
