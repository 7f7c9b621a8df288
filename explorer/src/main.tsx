// The page begins here: it signs in, or finds the host that shows it, and then draws what the address names.

import "uplot/dist/uPlot.min.css";
import "./page.css";
import { render } from "preact";
import { App } from "./app";
import { begin } from "./begin";
import { readAddress } from "./store";

const root = document.getElementById("app");
if (root) render(<App />, root);
addEventListener("popstate", readAddress);
addEventListener("hashchange", readAddress);
void begin();
