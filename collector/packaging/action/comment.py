"""Comments a collector's comparison of two versions on a pull request. Run by action.yml, with its inputs in the environment.

One comment for each app: a later run replaces its text. Needs Python's standard library only.
"""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

TIMEOUT_S = 60
# GitHub refuses longer comments.
MAX_CHARS = 65_000
MAX_PAGES = 50


def ask(url, token, method="GET", body=None):
    """Returns the body of an answer. One that is no success ends the program with its reason."""
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "tracetee"}
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=TIMEOUT_S) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {url}: status {error.code}: {error.read(1000).decode(errors='replace').strip()}")
    except OSError as error:
        sys.exit(f"{method} {url}: {error}")


def earlier_comment(comments, token, marker):
    """Returns the address of the comment of an earlier run; None if there is none."""
    for page in range(1, MAX_PAGES + 1):
        found = json.loads(ask(f"{comments}?per_page=100&page={page}", token))
        for comment in found:
            if comment["body"].startswith(marker):
                return comment["url"]
        if len(found) < 100:
            break
    return None


def main():
    app, earlier, later = (os.environ[name] for name in ("APP", "FROM", "TO"))
    number, fail_on = os.environ["PULL_REQUEST"], os.environ.get("FAIL_ON", "never")
    if not number.isdigit():
        sys.exit("no pull request: run the action on the event pull_request, or pass `pull-request`")
    if fail_on not in ("never", "worse"):
        sys.exit(f"fail-on: {fail_on!r} is not worse or never")
    query = urllib.parse.urlencode({"app": app, "compare": f"{earlier}..{later}"})
    collector, reader = os.environ["COLLECTOR"].rstrip("/"), os.environ["COLLECTOR_TOKEN"]
    text = ask(f"{collector}/report.md?{query}", reader)
    report = json.loads(ask(f"{collector}/report.json?{query}", reader))
    comparisons = [each["comparison"] for each in report["apps"] if each["comparison"]]
    if not comparisons:
        sys.exit(f"the collector has no comparison of {earlier} and {later} of {app}")

    marker = f"<!-- tracetee {app} -->\n"
    if len(text) > MAX_CHARS:
        text = text[:MAX_CHARS] + f"\n\n(Cut; all of it: {collector}/?{query})\n"
    api, token = os.environ.get("GITHUB_API_URL", "https://api.github.com"), os.environ["GITHUB_TOKEN"]
    comments = f"{api}/repos/{os.environ['GITHUB_REPOSITORY']}/issues/{number}/comments"
    known = earlier_comment(comments, token, marker)
    ask(known or comments, token, "PATCH" if known else "POST", {"body": marker + text})
    is_worse = any(row["verdict"] == "worse" for comparison in comparisons for row in comparison["rows"])
    print(f"{'replaced' if known else 'wrote'} the comment; {later} is {'worse' if is_worse else 'not worse'} than {earlier}")
    sys.exit(1 if is_worse and fail_on == "worse" else 0)


if __name__ == "__main__":
    main()
