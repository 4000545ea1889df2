// Fifteen questions about a phone's trace (list-jank: Matrix's sample app scrolls a list). Each has the query that answers it, the
// shortest way to the answer on our page and in Perfetto's interface, and the words that show it. A question that follows
// another begins where that one ended.

/** Durations as our page writes them. */
const time = (ns) => (ns >= 1e6 ? `${(ns / 1e6).toFixed(ns >= 1e8 ? 1 : 3)} ms` : `${ns / 1e3} µs`);
const SLICES = "from slice s join thread_track k on s.track_id=k.id join thread t using(utid)";
const MAIN = `${SLICES} where tid=24874`;
const FRAME = `(select ts,dur,id from (select s.* ${MAIN} and s.name='Choreographer#doFrame' order by dur desc limit 1))`;
const CALL = `(select s.ts,s.dur ${MAIN} and s.name='binder transaction' order by s.dur desc limit 1)`;
const find = (text) => async (hand) => { await hand.key("/"); await hand.type(text); };

export default [
  {
    name: "How long is main's longest frame?",
    sql: `select max(dur) ${MAIN} and s.name='Choreographer#doFrame'`,
    ours: find("doFrame on:main"), words: ([[dur]]) => [time(dur)],
  },
  {
    name: "How long did main run and sleep in it?", follows: true,
    sql: `select sum(iif(s.state='Running',min(s.ts+s.dur,f.ts+f.dur)-max(s.ts,f.ts),0)) run, sum(iif(s.state='S',min(s.ts+s.dur,f.ts+f.dur)-max(s.ts,f.ts),0)) sleep from thread_state s join thread t using(utid) join ${FRAME} f where tid=24874 and s.ts<f.ts+f.dur and s.ts+s.dur>f.ts`,
    ours: (hand) => hand.press("#hits tbody button"), words: ([[run, sleep]]) => [`running ${time(run)}`, `asleep ${time(sleep)}`],
  },
  {
    name: "Which section of it took most time by itself?", follows: true,
    sql: `select s.name, sum(s.dur-ifnull((select sum(dur) from slice c where c.parent_id=s.id),0)) own ${MAIN} and s.ts>=(select ts from ${FRAME}) and s.ts+s.dur<=(select ts+dur from ${FRAME}) group by 1 order by 2 desc limit 1`,
    ours: (hand) => hand.press("#profile th:nth-child(3) button"), words: ([[name, own]]) => [name, time(own)],
  },
  {
    name: "Which section took longer than in the frame before?", follows: true,
    sql: `with f as (select s.ts,s.dur,row_number() over(order by s.ts) n ${MAIN} and s.name='Choreographer#doFrame'), w as (select * from f where n in (select n from f order by dur desc limit 1) or n in (select n-1 from f order by dur desc limit 1)), o as (select w.n, s.name, sum(s.dur-ifnull((select sum(dur) from slice c where c.parent_id=s.id),0)) own from w join slice s on s.ts>=w.ts and s.ts+s.dur<=w.ts+w.dur join thread_track k on s.track_id=k.id join thread t using(utid) where tid=24874 group by 1,2) select a.name, a.own-ifnull(b.own,0) more from o a left join o b on b.name=a.name and b.n=a.n-1 where a.n=(select max(n) from w) order by 2 desc limit 1`,
    ours: (hand) => hand.key("b"), words: ([[name, more]]) => [name, `+${time(more)}`],
  },
  {
    name: "Which counter of the app rose most in it?", follows: true,
    sql: `select c.name, max(value)-min(value) rose from counter join process_counter_track c on c.id=track_id join process p using(upid) where pid=24874 and ts>=(select ts from ${FRAME}) and ts<(select ts+dur from ${FRAME}) group by 1 order by 2 desc limit 1`,
    ours: (hand) => hand.key("r"), words: ([[name]]) => [name],
  },
  {
    name: "How long is the longest binder call that main waits for?",
    sql: `select max(dur) ${MAIN} and s.name='binder transaction'`,
    ours: find("binder on:main"), words: ([[dur]]) => [time(dur)],
  },
  {
    name: "Which thread answered it?", follows: true,
    sql: `select rt.name, rt.tid from flow f join slice s on s.id=f.slice_out join slice r on r.id=f.slice_in join thread_track k on r.track_id=k.id join thread rt using(utid) where s.ts=(select ts from ${CALL}) and s.name='binder transaction'`,
    ours: (hand) => hand.press("#hits tbody button"), words: ([[name, tid]]) => [`${name} ${tid}`],
  },
  {
    name: "What ran on the core that main had left, while it waited?", follows: true,
    sql: `select t.name, t.tid, s.cpu, sum(min(s.ts+s.dur,c.ts+c.dur)-max(s.ts,c.ts)) ran from sched s join thread t using(utid) join ${CALL} c where t.tid not in (0,24874) and s.ts<c.ts+c.dur and s.ts+s.dur>c.ts and s.cpu=(select cpu from sched join thread using(utid) where tid=24874 and ts<=(select ts from ${CALL}) order by ts desc limit 1) group by 1,2,3 order by 4 desc limit 1`,
    ours: (hand) => hand.key("r"), words: ([[name, tid, cpu, ran]]) => [`Processor ${cpu}`, `${name} ${tid}: ${time(ran)}`],
  },
  {
    name: "How often was obtainView called, and how long at most?",
    sql: `select count(*), max(s.dur) ${SLICES} where s.name='obtainView'`,
    ours: find("obtainView"), words: ([[count, most]]) => [`Found: ${count}`, time(most)],
  },
  {
    name: "Which section calls setupListItem?",
    sql: "select distinct p.name from slice s join slice p on p.id=s.parent_id where s.name='setupListItem'",
    ours: find("setupListItem"), words: ([[name]]) => [name],
  },
  {
    name: "Who held the monitor for which main waited longest?",
    sql: `select substr(s.name,instr(s.name,'owner ')+6,28), s.dur ${MAIN} and s.name like 'monitor contention%' order by 2 desc limit 1`,
    ours: find("monitor contention on:main"), words: ([[owner, dur]]) => [owner, time(dur)],
  },
  {
    name: "How many sections of main took more than 16 ms?",
    sql: `select count(*) ${MAIN} and s.dur>16e6`,
    ours: find("dur:>16ms on:main"), words: ([[count]]) => [`Found: ${count}`],
  },
  {
    name: "Which thread of the app used the processors most?",
    sql: "select t.name, t.tid, sum(dur) ran from sched join thread t using(utid) join process p using(upid) where pid=24874 group by 1,2 order by 3 desc limit 1",
    ours: (hand) => hand.key("r"), words: ([[, tid, ran]]) => [` ${tid}`, `running ${time(ran)}`],
    perfetto: async (hand) => { await hand.key("a", "Control"); await hand.press("::-p-text(CPU by thread)"); }, perfettoWords: ([[name, tid]]) => [name, `${tid}`],
  },
  {
    name: "How long did main wait for a processor?",
    sql: "select sum(dur) from thread_state join thread using(utid) where tid=24874 and state in ('R','R+')",
    ours: (hand) => hand.key("r"), words: ([[waited]]) => [`runnable ${time(waited)}`],
  },
  {
    name: "Between which clocks was processor 7?",
    sql: "select min(value)/1e3 low, max(value)/1e3 high from counter join cpu_counter_track c on c.id=track_id where c.name='cpufreq' and cpu=7",
    ours: find("clock of processor 7"), words: ([[low, high]]) => [`${low.toLocaleString("en-US")} to ${high.toLocaleString("en-US")}`],
  },
];
