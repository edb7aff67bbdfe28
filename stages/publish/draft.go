package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Draft is the draft pull request that the branch is shown in. It is opened once
// and its text brought up to date at every push; title, reviewers and whether it
// is a draft stay as people set them.
type Draft struct {
	// Repository takes the pull request, as OWNER/NAME.
	Repository string `hcl:"repository" json:"repository"`
	// Base is the branch that it is to go into.
	Base string `hcl:"base,optional" json:"base,omitempty"`
	// Owner is whose fork the branch was pushed to; empty: the same repository.
	Owner string `hcl:"owner,optional" json:"owner,omitempty"`
	Title string `hcl:"title" json:"title"`
	// Consumer is a result of aicplan data read-back, below the output folder.
	Consumer string `hcl:"consumer,optional" json:"consumer,omitempty"`
}

var (
	repoName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+$`)
	ownerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*$`)
)

func (d *Draft) check(c *Config, bad func(summary, format string, args ...any)) {
	if !repoName.MatchString(d.Repository) {
		bad("Wrong repository", "%q is no repository of GitHub, such as \"ai-dynamo/aiconfigurator\".", d.Repository)
	}
	if !c.Push {
		bad("Nothing to show", "A draft pull request shows a branch of the remote: set push = true and remote, or remove the draft block.")
	}
	if d.Owner != "" && !ownerName.MatchString(d.Owner) {
		bad("Wrong owner", "%q is no name of a user or an organisation.", d.Owner)
	}
	if d.Base != "" && (!branchName.MatchString(d.Base) || strings.Contains(d.Base, "..")) {
		bad("Wrong base", "%q is no name of a branch.", d.Base)
	}
	if d.Title == "" || strings.ContainsAny(d.Title, "\r\n") {
		bad("Wrong title", "A pull request has a title of one line.")
	}
	if d.Consumer != "" && !filepath.IsLocal(d.Consumer) {
		bad("Path outside the output folder", "%q leads out of the output folder.", d.Consumer)
	}
}

func (d *Draft) base() string {
	if d.Base == "" {
		return "main"
	}
	return d.Base
}

// head is how gh names the branch.
func (d *Draft) head(branch string) string {
	if d.Owner == "" {
		return branch
	}
	return d.Owner + ":" + branch
}

// errNoGH says that the program is missing.
var errNoGH = errors.New("gh is not installed; install GitHub's command line, or remove the draft block and open the pull request by hand with the text in the body file")

// gh runs GitHub's command line with arguments: no shell reads them. It never asks.
func (p programs) gh(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "gh", args...)
	cmd.Env = append(os.Environ(), "GH_NO_UPDATE_NOTIFIER=1", "NO_COLOR=1", "LC_ALL=C")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := p.run(ctx, cmd, "gh "+strings.Join(args[:2], " "))
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", errNoGH
	case err != nil:
		return "", fmt.Errorf("gh %s: %w: %s", strings.Join(args[:2], " "), err, firstLines(errs.String(), 3))
	}
	return strings.TrimSpace(out.String()), nil
}

// pull is an open pull request.
type pull struct {
	Number  int    `json:"number"`
	URL     string `json:"url"`
	IsDraft bool   `json:"isDraft"`
	Base    string `json:"baseRefName"`
	Owner   struct {
		Login string `json:"login"`
	} `json:"headRepositoryOwner"`
}

func (d *Draft) listArgs(branch string) []string {
	return []string{"pr", "list", "--repo", d.Repository, "--head", branch, "--state", "open", "--limit", "30", "--json", "number,url,isDraft,baseRefName,headRepositoryOwner"}
}

func (d *Draft) createArgs(branch, body string) []string {
	return []string{"pr", "create", "--repo", d.Repository, "--head", d.head(branch), "--base", d.base(), "--title", d.Title, "--body-file", body, "--draft"}
}

func (d *Draft) editArgs(number int, body string) []string {
	return []string{"pr", "edit", strconv.Itoa(number), "--repo", d.Repository, "--body-file", body}
}

// restArgs changes the text by the REST call: gh's own edit also asks for
// projects, which fails where their old form is switched off.
func (d *Draft) restArgs(number int, body string) []string {
	return []string{"api", "repos/" + d.Repository + "/pulls/" + strconv.Itoa(number), "--method", "PATCH", "--field", "body=@" + body, "--silent"}
}

// find returns the open pull request of the branch, nil where there is none.
func (d *Draft) find(ctx context.Context, by programs, branch string) (*pull, error) {
	text, err := by.gh(ctx, d.listArgs(branch)...)
	if err != nil {
		return nil, err
	}
	var list []pull
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("gh pr list printed what is no list of pull requests: %w", err)
	}
	for i, p := range list {
		if p.Base == d.base() && (d.Owner == "" || strings.EqualFold(p.Owner.Login, d.Owner)) {
			return &list[i], nil
		}
	}
	return nil, nil
}

// update opens the pull request, or gives the open one its text of now. It
// returns its address.
func (d *Draft) update(ctx context.Context, by programs, branch, body string) (url string, opened bool, err error) {
	open, err := d.find(ctx, by, branch)
	if err != nil {
		return "", false, err
	}
	if open == nil {
		out, err := by.gh(ctx, d.createArgs(branch, body)...)
		if err != nil {
			return "", false, err
		}
		lines := strings.Split(out, "\n")
		return strings.TrimSpace(lines[len(lines)-1]), true, nil
	}
	if _, err := by.gh(ctx, d.editArgs(open.Number, body)...); err != nil {
		if errors.Is(err, errNoGH) || ctx.Err() != nil {
			return "", false, err
		}
		if _, again := by.gh(ctx, d.restArgs(open.Number, body)...); again != nil {
			return "", false, fmt.Errorf("the text of %s could not be changed: %w; and by the REST call: %w", open.URL, err, again)
		}
	}
	return open.URL, false, nil
}
