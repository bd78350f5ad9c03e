package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"

	"golang.org/x/oauth2"
)

func main() {
	config, verifier := provider(context.Background())
	pkce := oauth2.GenerateVerifier()
	back, err := url.Parse(config.RedirectURL)
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, config.AuthCodeURL("a state", oauth2.S256ChallengeOption(pkce)), http.StatusFound)
	})
	http.HandleFunc(back.Path, func(w http.ResponseWriter, r *http.Request) {
		token, err := config.Exchange(r.Context(), r.FormValue("code"), oauth2.VerifierOption(pkce))
		if err != nil {
			log.Fatal(err)
		}
		raw, _ := token.Extra("id_token").(string)
		verified, err := verifier.Verify(r.Context(), raw)
		if err != nil {
			log.Fatal(err)
		}
		var user struct{ Name, Email string }
		if err := verified.Claims(&user); err != nil {
			log.Fatal(err)
		}
		fmt.Fprintln(w, user.Name, user.Email)
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
