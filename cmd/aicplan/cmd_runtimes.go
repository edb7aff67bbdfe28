package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
	"aicplan/engine/stage"
)

// kindInfo is a kind of runtimes in the output of describe and help.
type kindInfo struct {
	Name       string       `json:"name"`
	Summary    string       `json:"summary"`
	Stability  string       `json:"stability"`
	Attributes []string     `json:"attributes"`
	Options    []optionInfo `json:"options"`
	Blocks     []blockInfo  `json:"blocks,omitempty"`
	Collect    []blockInfo  `json:"collect_blocks,omitempty"`
	Measure    []string     `json:"measure"`
	Bind       string       `json:"bind,omitempty"`
}

type optionInfo struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Doc      string   `json:"doc"`
	Default  string   `json:"default,omitempty"`
	OneOf    []string `json:"one_of,omitempty"`
	Required bool     `json:"required,omitempty"`
	// InKeys is false if the value does not distinguish rows.
	InKeys bool `json:"in_keys"`
}

type blockInfo struct {
	Name    string       `json:"name"`
	Doc     string       `json:"doc"`
	Options []optionInfo `json:"options"`
}

func kindInfoOf(k *stage.RuntimeKind) kindInfo {
	return kindInfo{
		Name: k.Name, Summary: k.Summary, Stability: string(k.Stability),
		Attributes: slices.Sorted(slices.Values(slices.Concat(stage.RuntimeCommon, k.Attributes))),
		Options:    optionInfos(k.Options, false), Measure: k.Measure, Bind: k.Binds,
		Blocks: blockInfos(k.Blocks), Collect: blockInfos(k.Collect),
	}
}

func blockInfos(blocks []stage.Block) (out []blockInfo) {
	for _, b := range blocks {
		out = append(out, blockInfo{b.Name, b.Doc, optionInfos(b.Options, b.Beside)})
	}
	return out
}

func optionInfos(options []stage.Option, beside bool) []optionInfo {
	out := []optionInfo{}
	for _, o := range options {
		typ := "any"
		if o.Type != cty.NilType && o.Type != cty.DynamicPseudoType {
			typ = config.TypeText(o.Type)
		}
		out = append(out, optionInfo{o.Name, typ, o.Doc, o.Default, o.OneOf, o.Required, !o.Beside && !beside})
	}
	return out
}

// optionsLine lists the options, and the blocks with their options.
func (k *kindInfo) optionsLine() string {
	var out []string
	for _, o := range k.Options {
		out = append(out, fmt.Sprintf("%s (%s)", o.Name, o.Type))
	}

	for _, b := range slices.Concat(k.Blocks, k.Collect) {
		var in []string
		for _, o := range b.Options {
			in = append(in, o.Name)
		}
		out = append(out, fmt.Sprintf("%s { %s }", b.Name, strings.Join(in, ", ")))
	}

	return strings.Join(out, ", ")
}
