// React Navigation with a navigator inside another one, and what screens.js reports of it.
import assert from "node:assert";
import * as navigation from "@react-navigation/core";
import { createElement } from "react";
import { act, create } from "react-test-renderer";
import { screens } from "./screens.mjs";

globalThis.IS_REACT_ACT_ENVIRONMENT = true;

const navigator = (router) =>
    navigation.createNavigatorFactory((props) => {
        const { state, descriptors, NavigationContent } = navigation.useNavigationBuilder(router, props);
        return createElement(NavigationContent, null, descriptors[state.routes[state.index].key].render());
    })();
const Stack = navigator(navigation.StackRouter);
const Tab = navigator(navigation.TabRouter);
const Empty = () => null;
const of = (kind, routes) => {
    const all = Object.entries(routes).map(([name, component]) => createElement(kind.Screen, { key: name, name, component }));
    return createElement(kind.Navigator, null, ...all);
};
const Home = () => of(Tab, { Feed: Empty, Search: Empty });

const seen = [];
const ref = navigation.createNavigationContainerRef();
const app = createElement(navigation.BaseNavigationContainer, screens(ref, (name) => seen.push(name)), of(Stack, { Home, Product: Empty }));
await act(async () => create(app));
// Twice the same kind of screen, once by other parameters.
for (const step of [
    () => ref.navigate("Product", { id: 1 }),
    () => ref.setParams({ id: 2 }),
    () => ref.goBack(),
    () => ref.navigate("Home", { screen: "Search" }),
]) {
    await act(async () => step());
}
assert.deepStrictEqual(seen, ["Feed", "Product", "Feed", "Search"]);
console.log(`screens: React Navigation: ${seen.join(", ")}: as expected`);
