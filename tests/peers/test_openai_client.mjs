// time limit: 300 s
// The server as the official client package sees it: lists models, chats with and without streaming, splits off thinking,
// raises typed errors, and frees a slot within one step when a stream is dropped.
import assert from "node:assert/strict";
import {execFileSync, spawn} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {hasPeer, loadPeer} from "./load_peer.mjs";

const data = process.env.CHIMERE_TESTDATA;
if (!hasPeer("openai") || !data) {
    console.log(data ? "openai is not installed" : "CHIMERE_TESTDATA is not set");
    process.exit(77);
}
const {default: OpenAI} = await loadPeer("openai");
const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "../..");
const chimere = process.env.CHIMERE_BIN ?? path.join(root, "chimere");
const tmp = fs.mkdtempSync(path.join(process.env.CHIMERE_TMP ?? os.tmpdir(), "openai-"));
const servers = [];
let passed = 0, failed = 0;

// Starts a server on a free port; resolves with its base address once it says that it is ready.
function serve(model, ...args) {
    const child = spawn(chimere, ["serve", "-m", model, "--port", "0", ...args], {stdio: ["ignore", "ignore", "pipe"]});
    servers.push(child);
    return new Promise((resolve, reject) => {
        let said = "";
        child.stderr.setEncoding("utf8");
        child.stderr.on("data", (text) => {
            said += text;
            const url = said.match(/ready on (http:\S+)\/v1/);
            if (url) resolve(url[1]);
        });
        child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
    });
}

const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
const health = async (url) => await (await fetch(`${url}/health`)).json();
async function metric(url, name) {
    const text = await (await fetch(`${url}/metrics`)).text();
    return Number(text.match(new RegExp(`^chimere_${name} (\\S+)$`, "m"))[1]);
}

async function check(what, run) {
    try {
        await run();
        passed++;
        console.log(`ok: ${what}`);
    } catch (e) {
        failed++;
        console.log(`FAILED: ${what}: ${e.stack ?? e}`);
    }
}

const mini = await serve(`${data}/models/mini-qwen35moe-f16.gguf`);
const client = new OpenAI({baseURL: `${mini}/v1`, apiKey: "none", maxRetries: 0});
const question = {model: "mini-qwen35moe-f16", temperature: 0, messages: [{role: "user", content: "What is the capital of France?"}]};

await check("lists models", async () => {
    const list = await client.models.list();
    assert.equal(list.data.length, 1);
    assert.equal(list.data[0].id, question.model);
    assert.equal((await client.models.retrieve(question.model)).object, "model");
});

await check("answers, thinking split off", async () => {
    const r = await client.chat.completions.create(question);
    const {message, finish_reason} = r.choices[0];
    assert.equal(message.content, "The capital of France is Paris.");
    assert.equal(message.reasoning_content, "Capital of France: Paris.");
    assert.equal(finish_reason, "stop");
    assert.equal(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens);
});

await check("streams the same", async () => {
    const stream = await client.chat.completions.create({...question, stream: true, stream_options: {include_usage: true}});
    let content = "", reasoning = "", finish, usage;
    for await (const chunk of stream) {
        content += chunk.choices[0]?.delta.content ?? "";
        reasoning += chunk.choices[0]?.delta.reasoning_content ?? "";
        finish = chunk.choices[0]?.finish_reason ?? finish;
        usage = chunk.usage ?? usage;
    }
    assert.equal(content, "The capital of France is Paris.");
    assert.equal(reasoning, "Capital of France: Paris.");
    assert.equal(finish, "stop");
    assert.ok(usage.prompt_tokens_details.cached_tokens > 0, "the second time most of the prompt is known");
});

await check("the stream helper of the package", async () => {
    const runner = client.chat.completions.stream(question);
    assert.equal((await runner.finalChatCompletion()).choices[0].message.content, "The capital of France is Paris.");
});

await check("thinking can be turned off", async () => {
    const r = await client.chat.completions.create({...question, chat_template_kwargs: {enable_thinking: false}});
    assert.equal(r.choices[0].message.content, "The capital of France is Paris.");
    assert.equal(r.choices[0].message.reasoning_content, undefined);
});

await check("several turns, parts, stop, length", async () => {
    const messages = [...question.messages, {role: "assistant", content: "The capital of France is Paris."},
        {role: "user", content: [{type: "text", text: "What is the capital "}, {type: "text", text: "of Italy?"}]}];
    const r = await client.chat.completions.create({...question, messages, stop: ["Rome"], chat_template_kwargs: {enable_thinking: false}});
    assert.equal(r.choices[0].message.content, "The capital of Italy is ");
    const cut = await client.chat.completions.create({...question, max_completion_tokens: 3});
    assert.equal(cut.choices[0].finish_reason, "length");
    assert.equal(cut.choices[0].message.content, ""); // cut inside thinking: nothing of it is answer
    assert.ok(cut.choices[0].message.reasoning_content.length > 0);
});

await check("tools reach the template", async () => {
    const tools = [{type: "function", function: {name: "get_weather", description: "Get the weather in a city.",
        parameters: {type: "object", properties: {city: {type: "string"}}, required: ["city"]}}}];
    const plain = await client.chat.completions.create({...question, max_tokens: 1});
    const r = await client.chat.completions.create({...question, tools, max_tokens: 1});
    assert.ok(r.usage.prompt_tokens > plain.usage.prompt_tokens + 20);
});

await check("errors are typed", async () => {
    const fails = async (body, kind, code, param) => {
        await assert.rejects(client.chat.completions.create({...question, ...body}), (e) => {
            assert.ok(e instanceof kind, `${e.constructor.name}: ${e.message}`);
            assert.equal(e.code, code);
            assert.equal(e.param ?? null, param);
            return true;
        });
    };
    await fails({max_tokens: 0}, OpenAI.BadRequestError, "invalid_value", "max_tokens");
    await fails({temperature: "hot"}, OpenAI.BadRequestError, "invalid_type", "temperature");
    await fails({logprobs: true}, OpenAI.BadRequestError, "unsupported", "logprobs");
    await fails({n: 2}, OpenAI.BadRequestError, "unsupported", "n");
    await fails({messages: []}, OpenAI.BadRequestError, "invalid_value", "messages");
    await fails({model: "gpt-x"}, OpenAI.NotFoundError, "model_not_found", "model");
    await fails({messages: [{role: "user", content: "word ".repeat(9000)}]}, OpenAI.BadRequestError, "context_length_exceeded", "messages");
    await fails({messages: [{role: "user", content: "x".repeat(17 << 20)}]}, OpenAI.APIError, "payload_too_large", null);
});

// ---- dropped streams: a model with random weights, and a seed with which it does not end by itself --------------------------
const random = path.join(tmp, "random.gguf");
execFileSync(chimere, ["synth", "qwen35moe", random, "--n-vocab", "32768", "--n-ctx", "4096", "-q"], {stdio: "ignore"});
const noise = await serve(random, "--slots", "1", "--ctx", "4096", "--api-key", "sesame");
const keyed = new OpenAI({baseURL: `${noise}/v1`, apiKey: "sesame", maxRetries: 0});
const endless = {model: "random", messages: [{role: "user", content: "Go on."}], temperature: 1.5};
const authorized = async (name) => {
    const text = await (await fetch(`${noise}/metrics`, {headers: {authorization: "Bearer sesame"}})).text();
    return Number(text.match(new RegExp(`^chimere_${name} (\\S+)$`, "m"))[1]);
};

await check("the key is asked for", async () => {
    const wrong = new OpenAI({baseURL: `${noise}/v1`, apiKey: "guess", maxRetries: 0});
    await assert.rejects(wrong.models.list(), OpenAI.AuthenticationError);
    assert.equal((await keyed.models.list()).data[0].id, "random");
});

await check("there is an endless answer to drop", async () => {
    for (endless.seed = 1; endless.seed < 20; endless.seed++) {
        const answer = await keyed.chat.completions.create({...endless, max_tokens: 400});
        if (answer.choices[0].finish_reason === "length") return;
    }
    assert.fail("every answer ended within 400 tokens");
});

// Milliseconds until no slot is busy.
async function untilFree() {
    const begin = performance.now();
    while ((await health(noise)).slots_busy > 0) {
        assert.ok(performance.now() - begin < 10000, "the slot is still busy after 10 s");
        await sleep(1);
    }
    return performance.now() - begin;
}

await check("a dropped stream frees its slot within one step", async () => {
    for (let round = 0; round < 5; round++) {
        const stream = await keyed.chat.completions.create({...endless, stream: true});
        let n = 0;
        for await (const chunk of stream) {
            if (++n < 4) continue;
            assert.equal((await health(noise)).slots_busy, 1);
            stream.controller.abort();
            break;
        }
        const ms = await untilFree();
        const steps = await authorized("steps_total"), step = 1000 * (await authorized("step_seconds_total")) / steps;
        // One step, the way to the server and back, and the time slices of a busy machine.
        assert.ok(ms < 3 * step + 250, `free after ${ms.toFixed(1)} ms, a step takes ${step.toFixed(2)} ms`);
        await sleep(30);
        assert.equal(await authorized("steps_total"), steps, "steps go on though nobody listens");
        console.log(`   free after ${ms.toFixed(1)} ms, a step takes ${step.toFixed(2)} ms`);
    }
    assert.equal(await authorized("requests_cancelled_total"), 5);
});

await check("a dropped request without streaming too", async () => {
    const stop = new AbortController();
    const answer = keyed.chat.completions.create(endless, {signal: stop.signal});
    while ((await health(noise)).slots_busy === 0) await sleep(1);
    stop.abort();
    await assert.rejects(answer, OpenAI.APIUserAbortError);
    assert.ok(await untilFree() < 1000);
    assert.equal(await authorized("requests_cancelled_total"), 6);
});

await check("SIGTERM ends the server with code 0", async () => {
    for (const child of servers) {
        child.removeAllListeners("exit");
        const ended = new Promise((r) => child.on("exit", (code, signal) => r(code ?? signal)));
        child.kill("SIGTERM");
        assert.equal(await ended, 0);
    }
});

for (const child of servers) child.kill("SIGKILL");
fs.rmSync(tmp, {recursive: true, force: true});
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
