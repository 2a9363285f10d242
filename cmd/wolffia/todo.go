package main

import "github.com/spf13/cobra"

func (a *app) cpCommand() *cobra.Command     { return &cobra.Command{Use: "cp"} }
func (a *app) doctorCommand() *cobra.Command { return &cobra.Command{Use: "doctor"} }
