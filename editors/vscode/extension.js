// Starts `dpspec lsp` for *.dps and *.dpspec.yaml; everything else is the server's.
"use strict";

const { workspace, window } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function activate() {
  const [command, ...args] = workspace.getConfiguration("dpspec").get("command");
  client = new LanguageClient(
    "dpspec",
    "dpspec",
    { command, args },
    {
      documentSelector: [
        { language: "dps" },
        { pattern: "**/*.dpspec.{yaml,yml}" },
      ],
      synchronize: { fileEvents: workspace.createFileSystemWatcher("**/policy.y{a,}ml") },
    },
  );
  try {
    await client.start();
  } catch (error) {
    window.showErrorMessage(
      `dpspec: ${[command, ...args].join(" ")} did not start: ${error.message}. Install it with pip install "dpspec[lsp]", or set dpspec.command.`,
    );
  }
}

function deactivate() {
  return client && client.stop();
}

module.exports = { activate, deactivate };
