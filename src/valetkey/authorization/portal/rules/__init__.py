"""Operations of developers on their apps."""
