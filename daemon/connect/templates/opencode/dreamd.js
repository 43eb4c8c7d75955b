// dreamd: the memory at the start of a session, its tools, and the transcript after each turn.
// 'dreamd connect opencode' writes this file, and 'dreamd disconnect opencode' removes it.
import { spawn } from "node:child_process"
import { mkdir, writeFile } from "node:fs/promises"

const program = $program
const server = [$command, ...$args]
const variables = $env
const folder = $folder

// Run dreamd, without failing, and return what it prints.
const run = (words, input, cwd) =>
  new Promise((resolve) => {
    let said = ""
    const child = spawn(program[0], [...program.slice(1), ...words], {
      cwd, env: { ...process.env, ...variables }, stdio: ["pipe", "pipe", "ignore"], detached: true,
    })
    child.on("error", () => resolve(""))
    child.stdin.on("error", () => {})
    child.stdout.on("data", (part) => (said += part))
    child.on("close", () => resolve(said))
    child.stdin.end(JSON.stringify(input))
  })

export const Dreamd = async ({ client, directory }) => {
  const memories = new Map()
  let reading = Promise.resolve()
  const hook = (name, session) => ({
    hook_event_name: name, session_id: session, cwd: directory, transcript_path: folder + "/" + session + ".jsonl",
  })

  const remember = async (session) => {
    const words = ["bootstrap", "--format", "hook", "--agent", "opencode"]
    const said = await run(words, hook("SessionStart", session), directory)
    try {
      return JSON.parse(said).hookSpecificOutput.additionalContext
    } catch {
      return ""
    }
  }

  // A session of a subagent has a parent: what is asked in it is no word of a person.
  const keep = async (session) => {
    const about = await client.session.get({ path: { id: session } })
    if (!about.data || about.data.parentID) return
    const { data } = await client.session.messages({ path: { id: session } })
    const event = hook("Stop", session)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const lines = (data ?? []).map((one) => JSON.stringify(one) + "\n")
    await writeFile(event.transcript_path, lines.join(""), { mode: 0o600 })
    await run(["ingest", "--hook", "--agent", "opencode"], event, directory)
  }

  return {
    config: async (config) => {
      config.mcp = { ...config.mcp, dreamd: { type: "local", command: server, environment: variables, enabled: true } }
    },
    "experimental.chat.system.transform": async ({ sessionID }, output) => {
      if (!sessionID) return
      if (!memories.has(sessionID)) memories.set(sessionID, remember(sessionID))
      const memory = await memories.get(sessionID)
      if (memory) output.system.push(memory)
    },
    event: async ({ event }) => {
      if (event.type === "session.compacted") memories.delete(event.properties.sessionID)
      if (event.type !== "session.idle") return
      reading = reading.then(() => keep(event.properties.sessionID)).catch(() => {})
      await reading
    },
    dispose: () => reading,
  }
}
