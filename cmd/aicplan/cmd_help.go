package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"aicplan/docs"
	"aicplan/engine/config"
	"aicplan/engine/plantest"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/stages"
	"aicplan/stages/runtimes"
)

type helpCmd struct {
	Topic []string `arg:"" optional:"" help:"A command, a block such as gate, a runtime kind, or a page."`
	JSON  bool     `name:"json" help:"Print the words of the plan language as JSON."`
}

// Help is printed below the summary.
func (helpCmd) Help() string {
	return "Pages: " + strings.Join(docs.Names(), ", ") + ".\n\n" + `Examples:
  aicplan help gate
  aicplan help cuda
  aicplan help ckpt gc`
}

// Run prints the help of a command and the page of a topic. A kind of runtimes without a page is printed as JSON.
func (c *helpCmd) Run(a *app, parser *kong.Kong) error {
	if c.JSON {
		return a.json(languageOf(a.stages()))
	}

	found := false
	part := func() {
		if found {
			fmt.Fprintln(a.stdout)
		}
		found = true
	}

	if node, _, rest := commandOf(parser.Model.Node, c.Topic); len(rest) == 0 && node != parser.Model.Node {
		part()
		ctx, err := kong.Trace(parser, c.Topic)
		if err != nil {
			return err
		}
		options := kong.HelpOptions{Compact: true, WrapUpperBound: columns, ValueFormatter: withDefault}
		if err := a.help(options, ctx); err != nil {
			return err
		}
	}

	topic := strings.Join(c.Topic, " ")
	text, page := docs.Page(topic)
	if page {
		part()
		a.page(text)
	}

	kinds := runtimes.Registered(a.kinds)
	if i := slices.IndexFunc(kinds, func(k stage.RuntimeKind) bool { return k.Name == topic }); i >= 0 && !page {
		part()
		if err := a.json(kindInfoOf(&kinds[i])); err != nil {
			return err
		}
	}

	if !found {
		var names []string
		for _, k := range kinds {
			names = append(names, k.Name)
		}
		for _, n := range parser.Model.Children {
			names = append(names, n.Name)
		}
		return fmt.Errorf("there is no page, command or kind of runtimes %q.%s aicplan help --help lists the pages",
			topic, textutil.DidYouMean(topic, append(names, docs.Names()...)))
	}

	return nil
}

// page prints Markdown: as it is in a pipe, and with wrapped paragraphs and tables on a terminal.
func (a *app) page(text string) {
	if a.screen() == 0 {
		fmt.Fprint(a.stdout, text)
		return
	}

	var b strings.Builder
	wide := a.columns()
	paragraph, fenced, inTable := "", false, false
	for line := range strings.SplitSeq(text, "\n") {
		fenced = fenced != strings.HasPrefix(line, "```")
		plain := !fenced && line != "" && !strings.ContainsAny(line[:1], "#|- ") &&
			!strings.HasPrefix(line, "```") && !strings.HasSuffix(line, "`:")
		if paragraph != "" && !plain {
			wrapped(&b, wide, 0, "", paragraph)
			paragraph = ""
		}

		row := !fenced && strings.HasPrefix(line, "|")
		switch {
		case plain:
			paragraph += line + " "
		case row && inTable && !strings.HasPrefix(line, "|---"):
			name, rest, _ := strings.Cut(strings.Trim(line, "| "), " | ")
			b.WriteString(name + "\n")
			wrapped(&b, wide, 4, "    ", strings.ReplaceAll(rest, " | ", ": "))
		case !row && !fenced:
			b.WriteString(a.fold(line) + "\n")
		case !row:
			b.WriteString(line + "\n")
		}
		inTable = row
	}

	fmt.Fprintln(a.stdout, strings.TrimRight(b.String(), "\n"))
}

// language is the vocabulary of plans, for editors and other programs.
type language struct {
	Blocks    stage.Vocabulary            `json:"blocks"`
	Stages    map[string]stage.Vocabulary `json:"stages"`
	Tests     stage.Vocabulary            `json:"tests"`
	Runtimes  []kindInfo                  `json:"runtimes"`
	Services  []blockInfo                 `json:"services"`
	Functions []string                    `json:"functions"`
}

func languageOf(all *stages.Set) *language {
	out := &language{Blocks: config.Words(), Stages: map[string]stage.Vocabulary{}, Tests: plantest.Words(),
		Functions: slices.Sorted(maps.Keys(config.Functions()))}

	for name, k := range all.Kinds {
		out.Stages[name] = stage.Words(k.New())
	}

	for _, k := range all.Runtimes() {
		out.Runtimes = append(out.Runtimes, kindInfoOf(&k))
	}

	for _, s := range all.Services() {
		out.Services = append(out.Services, blockInfo{s.Name, "", optionInfos(s.Options, false)})
	}

	return out
}
