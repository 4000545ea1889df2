// Opens files in speedscope's page: node speedscope.mjs EXECUTABLE INDEX FILE… prints a line of JSON for each file that fails, with
// what the page says. Called by tests/opened.rs.

import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";

const [, , executablePath, index, ...files] = process.argv;
// NODE_PATH is for require alone.
const { default: puppeteer } = await import(pathToFileURL(createRequire(`${process.env.NODE_PATH}/`).resolve("puppeteer-core")).href);
const running = await puppeteer.launch({ executablePath, headless: true, args: ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader"] });
for (const file of files) {
  const page = await running.newPage(), said = [];
  page.on("pageerror", (error) => said.push(error.message));
  // A trace without slices is imported, too.
  let empty;
  const imported = new Promise((resolve) => { empty = resolve; });
  page.on("dialog", (dialog) => {
    if (dialog.message() === "Successfully imported profile, but it's empty!") empty();
    else said.push(dialog.message());
    dialog.dismiss();
  });
  page.on("error", (error) => said.push(`crash: ${error.message}`));
  try {
    // As its own command line hands it a file.
    const script = `${file}.js`, bytes = (await readFile(file)).toString("base64");
    await writeFile(script, `speedscope.loadFileFromBase64(${JSON.stringify(basename(file))}, "${bytes}")`);
    await page.goto(`${pathToFileURL(index).href}#localProfilePath=${script}`);
    // The title is that of the profile, once it is shown.
    const shown = () => document.title !== "speedscope" || document.body.innerText.includes("Something went wrong");
    await Promise.race([imported, page.waitForFunction(shown, { timeout: 60_000 })]);
    if (await page.evaluate(() => document.body.innerText.includes("Something went wrong"))) said.push("Something went wrong");
  } catch (error) { said.push(error.message); }
  if (said.length) console.log(JSON.stringify([basename(file), said]));
  await page.close();
}
await running.close();
