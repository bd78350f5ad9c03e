package main

import (
	"context"
	"fmt"
	"log"
)

func main() {
	token, err := signIn(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("token", token.TokenType, token.Extra("id_token") != nil)
}
